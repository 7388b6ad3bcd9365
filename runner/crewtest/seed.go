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

// The gate is `go test ./...`: its random tests take the same choices each time. The soak
// is the same with CREW_SOAK set: it has the tests that take long, too, and choices of the
// day. CREW_SOAK is how many rounds the random tests go (any other text stands for 200).
// CREW_SOAK_SEED repeats the choices of an earlier soak, in both.

// Soaking reports whether this is the soak.
func Soaking() bool { return os.Getenv("CREW_SOAK") != "" }

// Soak leaves a test to the soak.
func Soak(t testing.TB) {
	t.Helper()
	if !Soaking() {
		t.Skip("for the soak: set CREW_SOAK")
	}
}

// Rounds returns how many rounds a random test goes: as many as gate, or as the soak asks for.
func Rounds(gate int) int {
	if !Soaking() {
		return gate
	}
	if n, err := strconv.Atoi(os.Getenv("CREW_SOAK")); err == nil && n > 0 {
		return n
	}
	return 200
}

// Rand returns the source of a test's random choices. A test that fails says how to repeat
// them. Each round of a test should have its own, numbered, so that it can be told.
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

// seed returns what all random choices of this process come from.
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
