package reading

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"allium/gateway/api"
	"allium/internal/openmode"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// filler is a content that writes a whole file, several groups at a time.
type filler interface {
	Fill(ctx context.Context, w io.WriterAt, wrote func(n int)) error
}

// fileWriter returns the WriteFile of a stream of the file o with the content c, or nil.
func (a *Reader) fileWriter(
	ctx context.Context, o api.Object, c b3.Content,
) func(*os.File, string, api.ProgressFunc) (bool, error) {
	from, ok := c.(filler)
	if !ok || !a.opt.WritesFiles || o.Size < api.LeastPassed {
		return nil
	}
	return func(f *os.File, path string, report api.ProgressFunc) (moved bool, err error) {
		if err := checkOutput(f); err != nil {
			return false, err
		}
		if r, ok := c.(restorer); ok && a.movesTo(f, path) {
			if report != nil {
				report(api.Progress{TotalBytes: o.Size, Resumed: o.Resumed})
			}
			// fill proves the groups that were stored before by reading them; the others are proved as they arrive.
			if err := fill(ctx, o, r, onlyProved{}, report); err != nil {
				return false, err
			}
			if moveTo(ctx, r, f, path) == nil {
				return true, nil
			}
			report = nil // it had all bytes
		}
		return false, fill(ctx, o, from, &outputFile{f: f}, report)
	}
}

// fill writes every group of the file o to w, proved, and reports how many bytes were. Groups are written by several
// goroutines; what one of them has written while another one reports is in the next report, and in the last.
func fill(ctx context.Context, o api.Object, from filler, w io.WriterAt, report api.ProgressFunc) error {
	if report == nil {
		report = func(api.Progress) {}
	}
	reach := func(bytes int64) { report(api.Progress{Bytes: bytes, TotalBytes: o.Size, Resumed: o.Resumed}) }
	var written atomic.Int64
	var reporting atomic.Bool
	err := from.Fill(ctx, w, func(n int) {
		written.Add(int64(n))
		if reporting.CompareAndSwap(false, true) {
			reach(written.Load())
			reporting.Store(false)
		}
	})
	if err != nil {
		return err
	}
	if written.Load() != o.Size {
		return status.Errorf(status.Internal, "%d of %d bytes of %s were written", written.Load(), o.Size, o.Root)
	}
	reach(o.Size)
	return nil
}

// outputFile says in its errors that it is the output: the store has files too.
type outputFile struct{ f *os.File }

func (o *outputFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := o.f.WriteAt(p, off)
	if err != nil {
		err = fmt.Errorf("write the output: %w", err)
	}
	return n, err
}

// checkOutput returns bad_request unless f is an empty regular file that is open for writing anywhere
// in it. The descriptor may have come from another process.
func checkOutput(f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return status.Errorf(status.BadRequest, "the output cannot be examined: %w", err)
	case !info.Mode().IsRegular():
		return status.Errorf(status.BadRequest, "the output is not a regular file")
	case info.Size() != 0:
		return status.Errorf(status.BadRequest, "the output is not empty: it has %d bytes", info.Size())
	}
	return checkOpenMode(f)
}

// checkOpenMode returns bad_request unless f is open for writing, and not for appending, which would
// put each group at the end.
func checkOpenMode(f *os.File) error {
	mode, err := openmode.Of(f)
	switch {
	case err != nil:
		return status.Errorf(status.BadRequest, "the output cannot be examined: %w", err)
	case !mode.Write:
		return status.Errorf(status.BadRequest, "the output is not open for writing")
	case mode.Append:
		return status.Errorf(status.BadRequest, "the output is open for appending")
	}
	return nil
}
