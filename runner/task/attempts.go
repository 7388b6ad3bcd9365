package task

// keptAttempts is how many of the attempts before the last are kept of a task.
const keptAttempts = 10

// KeepAttempt adds an attempt to the earlier ones of a task. Beyond a few it leaves out
// one between the first and the latest, and returns it; full is false if it left out none.
func KeepAttempt[T any](list []T, a T) (kept []T, out T, full bool) {
	list = append(list, a)
	if len(list) <= keptAttempts {
		return list, out, false
	}
	out = list[1]
	return append(list[:1], list[2:]...), out, true
}
