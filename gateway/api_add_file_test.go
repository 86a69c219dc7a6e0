//go:build unix

package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// passedFile returns an open file with this content.
func passedFile(t *testing.T, content string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestAddFile: the node gets the open file of the client, with the name, the address and the options, and no tar.
func TestAddFile(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := connectTo(t, n)
	n.node.add.set(func(_ context.Context, tar io.Reader, o api.AddOptions, progress api.ProgressFunc) iter.Seq2[api.Added,
		error] {
		return func(yield func(api.Added, error) bool) {
			sent, err := io.ReadAll(tar)
			p := make([]byte, 9)
			read, _ := o.File.File.ReadAt(p, 0)
			progress(api.Progress{Bytes: int64(read)})
			got := fmt.Sprintf("%q %q %q %s %t %q %+v", sent, p[:read], o.File.Name, o.File.Root, o.NoPin, o.Label, o.Target)
			yield(api.Added{Name: got, Kind: api.File}, err)
		}
	})
	for _, v := range []struct {
		o    api.AddOptions
		root b3.Root
		want string
	}{
		{api.AddOptions{NoPin: true}, b3.Root{}, `true "" <nil>`},
		{api.AddOptions{Label: "x", Target: &api.Target{RF: 2}}, fakeRoot, `false "x" rf 2`},
	} {
		v.o.File = &api.PassedFile{File: passedFile(t, "content"), Name: "é b", Root: v.root}
		got, err := collect(c.Add(t.Context(), strings.NewReader("tar"), v.o, nil))
		want := fmt.Sprintf(`"" "content" "é b" %s %s`, v.root, v.want)
		if err != nil || len(got) != 1 || got[0].Name != want {
			t.Errorf("%+v, %v, want %s", got, err, want)
		}
	}
	a := do(t, "POST", n.Addrs().Admin+"/api/v1/add/file?name=f", "Authorization", "Bearer may-put,pin")
	if reason := a.Header.Get("X-Reason"); reason != status.Unsupported.String() {
		t.Errorf("over TCP: %s %s %s", a.Status, reason, a.body)
	}
}

// TestAddFileFails: the errors of the node reach the client as they are, before and after something was added, and a
// client that goes away ends the work.
func TestAddFileFails(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := connectTo(t, n)
	var adds atomic.Int64
	add := func(ctx context.Context, of func(ctx context.Context, yield func(api.Added, error) bool),
		progress api.ProgressFunc) ([]api.Added, error) {
		n.node.add.set(func(ctx context.Context, _ io.Reader, _ api.AddOptions, report api.ProgressFunc) iter.Seq2[api.Added,
			error] {
			adds.Add(1)
			report(api.Progress{Bytes: 1})
			return func(yield func(api.Added, error) bool) { of(ctx, yield) }
		})
		o := api.AddOptions{File: &api.PassedFile{File: passedFile(t, "content"), Name: "f"}}
		return collect(c.Add(ctx, strings.NewReader("tar"), o, progress))
	}
	full := status.Errorf(status.NoSpace, "full")
	if _, err := add(t.Context(), func(_ context.Context, yield func(api.Added, error) bool) {
		yield(api.Added{}, full)
	}, nil); status.Of(err) != status.NoSpace || adds.Load() != 1 {
		t.Errorf("before: %v, %d adds", err, adds.Load())
	}
	if got, err := add(t.Context(), func(_ context.Context, yield func(api.Added, error) bool) {
		if yield(api.Added{Name: "f", Kind: api.File}, nil) {
			yield(api.Added{}, full)
		}
	}, nil); status.Of(err) != status.NoSpace || len(got) != 1 || adds.Load() != 2 {
		t.Errorf("after: %+v, %v, %d adds", got, err, adds.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	_, err := add(ctx, func(ctx context.Context, yield func(api.Added, error) bool) {
		defer close(ended)
		<-ctx.Done()
		yield(api.Added{}, ctx.Err())
	}, func(api.Progress) { cancel() })
	<-ended
	if !errors.Is(err, context.Canceled) || adds.Load() != 3 {
		t.Errorf("canceled: %v, %d adds", err, adds.Load())
	}
}
