package wiring

import (
	"os"
	"slices"
	"time"
)

// watch calls changed when one of files has been changed, replaced or removed, and was the
// same at two looks since: it is not half written then. gone is the error of one that cannot
// be looked at. The first call is about how the files are at the start. Polling works on
// every file system, unlike notification. No call is under way once stop returns.
func watch(files []string, every time.Duration, changed func(gone error)) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(every)
		defer t.Stop()
		last, fresh := []os.FileInfo(nil), true
		for {
			select {
			case <-quit:
				return
			case <-t.C:
			}
			now, gone := look(files)
			if !slices.EqualFunc(last, now, sameFile) {
				last, fresh = now, true
			} else if fresh {
				fresh = false
				changed(gone)
			}
		}
	}()
	return func() { close(quit); <-done }
}

// look returns what there is of files: nil for one that cannot be looked at, and why.
func look(files []string) (infos []os.FileInfo, gone error) {
	for _, file := range files {
		st, err := os.Stat(file)
		if err != nil && gone == nil {
			gone = err
		}
		infos = append(infos, st)
	}
	return infos, gone
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
