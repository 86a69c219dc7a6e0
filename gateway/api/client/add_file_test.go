//go:build unix

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// openFile returns an open file of size bytes.
func openFile(t *testing.T, size int64) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return f
}

// answerAdded answers with one item.
func answerAdded(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	fmt.Fprintf(w, "{\"item\":{\"name\":%q,\"root\":%q}}\n{\"ok\":{}}\n", name, b3.Root{})
}

// TestAddFileFallsBack: a node that cannot take an open file gets the tar, and any other error of it is the error of
// the add.
func TestAddFileFallsBack(t *testing.T) {
	t.Parallel()
	problem := func(code int, reason string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"status":%d,"reason":%q,"message":"no"}`, code, reason)
		}
	}
	for _, c := range []struct {
		what   string
		answer func(http.ResponseWriter)
		added  string
		want   status.Outcome
	}{
		{"takes it", func(w http.ResponseWriter) { answerAdded(w, "file") }, "file", status.OK},
		{"unknown verb", problem(http.StatusNotFound, "not_found"), "tar", status.OK},
		{"another method", problem(http.StatusMethodNotAllowed, "method"), "tar", status.OK},
		{"no descriptor", problem(http.StatusNotImplemented, "unsupported"), "tar", status.OK},
		{"another server", func(w http.ResponseWriter) { http.Error(w, "what?", http.StatusBadGateway) }, "tar", status.OK},
		{"another answer", func(w http.ResponseWriter) { fmt.Fprintln(w, "<html>") }, "tar", status.OK},
		{"full", problem(http.StatusInsufficientStorage, "no_space"), "", status.NoSpace},
		{"cut", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "", status.TransportDown},
	} {
		asked := make(chan string, 2) // bound: of one add
		node := serve(t, func(w http.ResponseWriter, r *http.Request) {
			asked <- strings.TrimPrefix(r.URL.Path, api.PathPrefix) + "?" + r.URL.RawQuery
			body, err := io.ReadAll(r.Body)
			if r.URL.Path == api.PathPrefix+"add" {
				answerAdded(w, string(body))
				return
			}
			if err != nil || len(body) > 0 {
				t.Errorf("%s: the request has a body of %d bytes, %v", c.what, len(body), err)
			}
			c.answer(w)
		})
		var got []string
		var failed error
		o := api.AddOptions{NoPin: true, Label: "l", Target: &api.Target{RF: 2}, Ordered: true, File: &api.PassedFile{
			File: openFile(t, 1<<30), Name: "a b", Root: b3.Root{1},
		}}
		for added, err := range node.Add(t.Context(), strings.NewReader("tar"), o, nil) {
			if failed = err; err == nil {
				got = append(got, added.Name)
			}
		}
		if strings.Join(got, " ") != c.added || status.Of(failed) != c.want {
			t.Errorf("%s: added %q, %v", c.what, got, failed)
		}
		want := []string{"add/file?label=l&name=a+b&no_pin=true&rf=2&root=b3%3A01" + strings.Repeat("0", 62)}
		if c.added == "tar" {
			want = append(want, "add?label=l&no_pin=true&ordered=true&rf=2")
		}
		for _, want := range want {
			if got := <-asked; got != want {
				t.Errorf("%s: asked %s, want %s", c.what, got, want)
			}
		}
		if len(asked) > 0 {
			t.Errorf("%s: asked more: %s", c.what, <-asked)
		}
	}
}

// TestAddFileOnce: an error after an item is not answered with the tar, and nothing is repeated when the caller stops.
func TestAddFileOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	node := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprintf(w, "{\"item\":{\"name\":\"x\",\"root\":%q}}\n", b3.Root{})
		fmt.Fprintln(w, `{"error":{"reason":"unsupported","message":"no"}}`)
	})
	o := api.AddOptions{File: &api.PassedFile{File: openFile(t, 5), Name: "f"}}
	var last error
	for _, err := range node.Add(t.Context(), strings.NewReader("tar"), o, nil) {
		last = err
	}
	if status.Of(last) != status.Unsupported || asked.Load() != 1 {
		t.Errorf("asked %d times: %v", asked.Load(), last)
	}
	for range node.Add(t.Context(), strings.NewReader("tar"), o, nil) {
		break
	}
	if asked.Load() != 2 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// TestAddFileCanceled: the end of its context ends an add of an open file, in the node too.
func TestAddFileCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	node := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, `{"progress":{"bytes":1,"objects":0}}`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(ended)
	})
	o := api.AddOptions{File: &api.PassedFile{File: openFile(t, 5), Name: "f"}}
	var last error
	for _, err := range node.Add(ctx, strings.NewReader("tar"), o, func(api.Progress) { cancel() }) {
		last = err
	}
	<-ended
	if !errors.Is(last, context.Canceled) {
		t.Error(last)
	}
}
