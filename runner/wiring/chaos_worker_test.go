package wiring

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// workerVariable makes the test binary a persistent worker. It holds a chaosSpec.
const workerVariable = "CREW_TEST_WORKER"

// chaosSpec is what a worker of the chaos test is to do, written with fmt.
type chaosSpec struct {
	protocol string
	seed     uint64
	permille int  // of the records meet a fault
	single   bool // the window is 1
}

func (c chaosSpec) String() string {
	return fmt.Sprintf("%s %d %d %t", c.protocol, c.seed, c.permille, c.single)
}

// terminator is what ends an answer on crew's stdout.
func (c chaosSpec) terminator() string {
	if c.protocol == "nul" {
		return "\x00"
	}
	return "\n"
}

// chaosAnswer is the answer to a record, "NUMBER KIND SIZE": it is made of the record
// alone and about SIZE bytes long.
func chaosAnswer(record string) string {
	h := fnv.New64a()
	_, _ = io.WriteString(h, record)
	sum := h.Sum64()
	size, _ := strconv.Atoi(record[strings.LastIndexByte(record, ' ')+1:])
	return fmt.Sprintf("%s:%016x:%s", record, sum, strings.Repeat(string(rune('a'+sum%26)), size))
}

// chaosNoise is the number of lines on stderr for one record.
const chaosNoise = 5000

// chaosRequest is a record that the worker has read.
type chaosRequest struct {
	ID      json.RawMessage `json:"id"`
	Args    []string        `json:"args"`
	Attempt int             `json:"attempt"`
}

// chaosWorker answers records, but not always, not always once, and not always what it
// should. Before a fault it writes down whose fault that will be.
type chaosWorker struct {
	chaosSpec
	end  byte // of a record and of an answer
	rnd  *rand.Rand
	in   *bufio.Reader
	hand []chaosRequest // read and not answered
}

// newChaosWorker returns the worker that the environment asks for. The working
// directory has a file for each slot whose size is the number of its lives, so that no
// two of them are alike.
func newChaosWorker(spec string) *chaosWorker {
	w := &chaosWorker{in: bufio.NewReaderSize(os.Stdin, 1<<20)}
	if _, err := fmt.Sscan(spec, &w.protocol, &w.seed, &w.permille, &w.single); err != nil {
		panic(err)
	}
	w.end = w.terminator()[0]
	slot := os.Getenv("CREW_WORKER")
	life := chaosNote("lives."+slot, ".")
	n, _ := strconv.ParseUint(slot, 10, 64)
	w.rnd = rand.New(rand.NewPCG(w.seed, n<<32|uint64(life)))
	if life%3 == 1 && w.rnd.IntN(4) == 0 { // three in a row would be the end of the run
		fmt.Fprintln(os.Stderr, "no life")
		os.Exit(1)
	}
	return w
}

// chaosNote appends text to a file and returns its size.
func chaosNote(name, text string) int64 {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		panic(err)
	}
	size, _ := f.Seek(0, io.SeekEnd)
	return size
}

// work answers until stdin ends, and returns the worker's exit status.
func (w *chaosWorker) work() int {
	for w.read() {
		i := 0
		if w.protocol == "json" {
			i = w.rnd.IntN(len(w.hand))
			w.progress(w.hand[i])
		}
		if w.rnd.IntN(1000) < w.permille {
			w.fault(i)
		} else {
			w.answer(i)
		}
	}
	return 0
}

// read reads what is there, at least one record.
func (w *chaosWorker) read() bool {
	for len(w.hand) == 0 || w.in.Buffered() > 0 {
		text, err := w.in.ReadBytes(w.end)
		if err != nil {
			return false
		}
		text = text[:len(text)-1]
		r := chaosRequest{Args: []string{string(text)}}
		if w.protocol == "json" {
			if r.Args = nil; json.Unmarshal(text, &r) != nil || len(r.Args) != 1 {
				panic("request: " + string(text))
			}
		}
		w.hand = append(w.hand, r)
	}
	return true
}

// message is the answer to the i-th record in hand, with what ends it.
func (w *chaosWorker) message(i int) []byte {
	r := w.hand[i]
	text := chaosAnswer(r.Args[0])
	if w.protocol == "json" {
		exit := 0
		if strings.Contains(r.Args[0], " poison ") {
			exit = 7
		}
		b, _ := json.Marshal(map[string]any{"id": r.ID, "exit": exit, "stdout": text + "\n", "stderr": ""})
		text = string(b)
	}
	return append([]byte(text), w.end)
}

// say writes to stdout.
func (w *chaosWorker) say(text []byte) {
	if _, err := os.Stdout.Write(text); err != nil {
		os.Exit(1)
	}
}

func (w *chaosWorker) progress(r chaosRequest) {
	if w.rnd.IntN(4) == 0 {
		w.say(fmt.Appendf(nil, `{"id":%s,"progress":%d}`+"\n", r.ID, w.rnd.IntN(100)))
	}
}

// answer answers the i-th record in hand as it should, unless it is poison: then the
// worker dies of it.
func (w *chaosWorker) answer(i int) {
	if w.protocol != "json" && strings.Contains(w.hand[i].Args[0], " poison ") {
		os.Exit(7)
	}
	w.say(w.message(i))
	w.hand = append(w.hand[:i], w.hand[i+1:]...)
}

// charge writes down what a fault will cost an attempt: the oldest record, or with json
// any that was read.
func (w *chaosWorker) charge(fault string) {
	var b strings.Builder
	hand := w.hand
	if w.protocol != "json" {
		hand = hand[:min(1, len(hand))]
	}
	for _, r := range hand {
		fmt.Fprintf(&b, "%d %s %q\n", os.Getpid(), fault, r.Args[0])
	}
	chaosNote("charges", b.String())
}

// fault does something that no worker should while the i-th record in hand is due.
func (w *chaosWorker) fault(i int) {
	faults := []string{"exit", "exit", "kill", "empty", "half", "hang", "stubborn", "mute", "deaf", "child", "flood", "flood"}
	if w.protocol == "json" {
		faults = append(faults, "garbage", "garbage", "unknown", "twice")
	} else if w.single {
		faults = append(faults, "twice", "twice")
	}
	name := faults[w.rnd.IntN(len(faults))]
	message := w.message(i)
	if name == "twice" && len(message) > 2000 { // crew may take it for the next answer if it comes in two parts
		name = "half"
	}
	switch name {
	case "flood":
		line := fmt.Appendf(nil, "noise %q\n", w.hand[i].Args[0])
		chaosNote("floods", "(")
		_, _ = os.Stderr.Write(bytes.Repeat(line, chaosNoise))
		chaosNote("floods", ")")
		w.answer(i)
		return
	case "deaf":
		w.answer(i)
	}
	w.charge(name)
	switch name {
	case "exit":
		os.Exit(3)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "empty":
		os.Exit(0)
	case "half":
		w.say(message[:len(message)/2])
		os.Exit(0)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	case "mute":
		_ = os.Stdout.Close()
	case "deaf": // if it gets no more records, crew waits for its end
		_ = os.Stdin.Close()
		time.Sleep(2 * time.Second)
		os.Exit(0)
	case "child": // which holds the pipes
		child := exec.Command("sleep", "600")
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		_ = child.Start()
		os.Exit(3)
	case "garbage":
		w.say([]byte(w.garbage()))
	case "unknown":
		w.say([]byte(`{"id":987654321,"exit":0,"stdout":"mixed\n"}` + "\n"))
	case "twice":
		w.say(append(message, message...))
	}
	time.Sleep(time.Hour)
}

// garbage is a line that is no answer.
func (w *chaosWorker) garbage() string {
	lines := []string{"", "{", "null", "[]", `{"exit":0}`, `{"id":{}}`, `{"id":null,"exit":0}`, "\xff\xfe", "Loading model...", strings.Repeat("[", 10_000)}
	return lines[w.rnd.IntN(len(lines))] + "\n"
}
