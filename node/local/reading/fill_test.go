package reading

import (
	"context"
	"io"
	"runtime"
	"sync"
	"testing"

	"allium/gateway/api"
)

// many is a filler that writes a byte from each of many goroutines.
type many int

func (m many) Fill(_ context.Context, _ io.WriterAt, wrote func(n int)) error {
	var writing sync.WaitGroup
	for range m {
		writing.Go(func() { wrote(1) })
	}
	writing.Wait()
	return nil
}

// TestFillReportsInOrder: reports of a file that several goroutines write grow, come one at a time, and end with all
// bytes.
func TestFillReportsInOrder(t *testing.T) {
	t.Parallel()
	const size = 1000
	for range 20 {
		last := int64(0)
		err := fill(t.Context(), api.Object{Size: size}, many(size), onlyProved{}, func(p api.Progress) {
			runtime.Gosched() // others write meanwhile
			if p.Bytes < last || p.TotalBytes != size {
				t.Errorf("%+v after %d bytes", p, last)
			}
			last = p.Bytes
		})
		if err != nil || last != size {
			t.Fatalf("%d of %d bytes were reported, %v", last, size, err)
		}
	}
	if err := fill(t.Context(), api.Object{Size: size + 1}, many(size), onlyProved{}, nil); err == nil {
		t.Error("no error for a byte that was not written")
	}
}
