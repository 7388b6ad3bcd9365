package task

// Nearest returns the one of names that is most similar to name, or "" if none is
// similar.
func Nearest(name string, names []string) string {
	best, least := "", min(max(1, len(name)/3)+1, len(name))
	for _, n := range names {
		if d := Distance(name, n); d < least {
			best, least = n, d
		}
	}
	return best
}

// Distance returns the optimal string alignment distance of a and b: how many
// bytes to insert, delete, change or swap with a neighbour. It keeps three rows
// of the table at a time.
func Distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			d := last[j]
			if a[i] != b[j] {
				d = 1 + min(d, last[j+1], row[j])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			row[j+1] = d
		}
	}
	return row[len(b)]
}
