package crewtest

import (
	"flag"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	_ "pgregory.net/rapid" // defines the flag that init sets
)

// The gate is `go test ./...`: its random tests make the same choices each time. The soak is the
// same with CREW_SOAK set: it also runs the tests that take long, and its random choices change
// every day. CREW_SOAK is the number of rounds of random tests (any other text means 200).
// CREW_SOAK_SEED, in either, repeats the choices of an earlier soak.

// Soaking reports whether this is the soak.
func Soaking() bool { return os.Getenv("CREW_SOAK") != "" }

// SoakOnly skips the test unless this is the soak.
func SoakOnly(t testing.TB) {
	t.Helper()
	if !Soaking() {
		t.Skip("for the soak: set CREW_SOAK")
	}
}

// Rounds returns the number of rounds for a random test: gate, or in the soak the number that CREW_SOAK
// sets.
func Rounds(gate int) int {
	if !Soaking() {
		return gate
	}
	if n, err := strconv.Atoi(os.Getenv("CREW_SOAK")); err == nil && n > 0 {
		return n
	}
	return 200
}

// Rand returns a source of random choices for one round of a test. If the test fails, it logs how to
// repeat them. Each round should have its own source and number.
func Rand(t testing.TB, round int) *rand.Rand {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("round %d; repeat it with CREW_SOAK_SEED=%d", round, seed())
		}
	})
	name := fnv.New64a()
	_, _ = name.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(seed(), name.Sum64()+uint64(round)))
}

// Seeds adds texts to the corpus of a fuzz test whose inputs are one text each.
func Seeds(f *testing.F, texts ...string) {
	for _, text := range texts {
		f.Add(text)
	}
}

// seed returns the seed of all random choices of this process.
func seed() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("CREW_SOAK_SEED"), 10, 64); err == nil {
		return n
	}
	if !Soaking() {
		return 1
	}
	day, _ := strconv.ParseUint(time.Now().UTC().Format("20060102"), 10, 64)
	return day
}

func init() {
	if f := flag.Lookup("rapid.seed"); f != nil {
		_ = f.Value.Set(strconv.FormatUint(seed(), 10))
	}
}
