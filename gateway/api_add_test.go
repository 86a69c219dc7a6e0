package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/protocols/status"
)

// TestAddProgress: the answer comes while the upload still runs.
func TestAddProgress(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := connectTo(t, n)
	n.node.add.set(func(ctx context.Context, tar io.Reader, _ api.AddOptions, progress api.ProgressFunc) iter.Seq2[api.Added, error] {
		return func(yield func(api.Added, error) bool) {
			buf := make([]byte, 1)
			for i := int64(1); ; i++ {
				if _, err := io.ReadFull(tar, buf); err != nil {
					if !errors.Is(err, io.EOF) {
						yield(api.Added{}, err)
					}
					return
				}
				progress(api.Progress{Bytes: i})
				if !yield(api.Added{Name: string(buf), Kind: api.File}, nil) {
					return
				}
			}
		}
	})
	upload, w := io.Pipe()
	progress := make(chan api.Progress, 100)
	items, stop := iter.Pull2(c.Add(t.Context(), upload, api.AddOptions{}, func(p api.Progress) { progress <- p }))
	defer stop()
	for i := range 3 {
		name := fmt.Sprint(i)
		go func() { _, _ = io.WriteString(w, name) }()
		added, err, ok := items()
		if !ok || err != nil || added.Name != name {
			t.Fatalf("%+v, %v, %v", added, err, ok)
		}
	}
	go func() { // the next item waits until there was progress
		<-progress
		w.Close()
	}()
	if added, err, ok := items(); ok {
		t.Fatalf("%+v, %v", added, err)
	}
}

// TestAddFails: an error in the middle of an upload reaches the client, which
// is still sending.
func TestAddFails(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := connectTo(t, n)
	full := status.Errorf(status.NoSpace, "the disk is full")
	for _, before := range []int{0, 2} {
		n.node.add.set(func(context.Context, io.Reader, api.AddOptions, api.ProgressFunc) iter.Seq2[api.Added, error] {
			return seq(full, []api.Added{{Kind: api.File}}[:min(before, 1)]...)
		})
		for range 20 { // the error must win every race with the upload
			_, err := collect(c.Add(t.Context(), zeros{}, api.AddOptions{}, nil))
			if status.Of(err) != status.NoSpace {
				t.Fatalf("after %d items: %v", before, err)
			}
		}
	}
	waitFor(t, func() bool { return n.InFlight() == 0 })
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestAmnesiaIsNoFault: what a node refuses because it keeps nothing, as every
// add asks it, is no warning in its log; what fails is.
func TestAmnesiaIsNoFault(t *testing.T) {
	t.Parallel()
	n := start(t)
	for o, level := range map[status.Outcome]string{status.Amnesia: "DEBUG", status.NoSpace: "WARN"} {
		n.node.get.set(func(context.Context, string) (*api.Stream, error) { return nil, status.Errorf(o, "refused") })
		_, err := connectTo(t, n).Get(t.Context(), "x")
		if status.Of(err) != o {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`(?m)^.*reason=` + o.String() + ` .*$`)
		waitFor(t, func() bool { return line.MatchString(n.log.String()) })
		if got := line.FindString(n.log.String()); !strings.Contains(got, "level="+level) {
			t.Errorf("%s: %s", o, got)
		}
	}
}
