package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"allium/internal/testkit"
	"allium/protocols/b3"
)

// TestTermInMidUpload sends SIGTERM to a node while two clients upload: the one
// that goes on is answered 201 and its object is there afterwards, the one that
// stands still is cut and leaves nothing, and the process ends with 0.
func TestTermInMidUpload(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	initHome(t, home)
	token, err := exec.Command("allium", "--home", home, "token", "mint", "--op", "put,pin", "--expires", "1h").Output()
	if err != nil {
		t.Fatal(err)
	}
	node, gateway := startNode(t, home)

	sent, never := bytes.Repeat([]byte("kept "), half/5), bytes.Repeat([]byte("never "), half/6)
	type answer struct {
		code int
		err  error
	}
	post := func(body io.Reader, length int) <-chan answer {
		done := make(chan answer, 1)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gateway+"/o", body)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = int64(length)
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		tr := &http.Transport{} // a connection of its own
		t.Cleanup(tr.CloseIdleConnections)
		go func() {
			resp, err := (&http.Client{Transport: tr}).Do(req)
			if err != nil {
				done <- answer{err: err}
				return
			}
			resp.Body.Close()
			done <- answer{code: resp.StatusCode}
		}()
		return done
	}
	body, feed := io.Pipe()
	stands, idle := io.Pipe()
	kept, cut := post(body, len(sent)), post(stands, len(never))
	// What the pipes took is on its way; the last bytes are not.
	for w, p := range map[*io.PipeWriter][]byte{feed: sent, idle: never} {
		if _, err := w.Write(p[:len(p)-1]); err != nil {
			t.Fatal(err)
		}
	}
	awaitUploads(t, home, 2)
	if err := node.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitDraining(t, gateway)
	if _, err := feed.Write(sent[len(sent)-1:]); err != nil {
		t.Error(err)
	}
	feed.Close()
	hearsDraining(t, gateway)
	if a := <-kept; a.code != http.StatusCreated {
		t.Errorf("who went on: %d, %v", a.code, a.err)
	}
	if a := <-cut; a.err == nil && a.code < http.StatusBadRequest {
		t.Errorf("who stood still: %d", a.code)
	}
	idle.Close()
	if err := node.Wait(); err != nil {
		t.Errorf("the node ended with %v", err)
	}
	if out, err := exec.Command("allium", "--home", home, "cat", b3.Sum(sent).String()).Output(); err != nil ||
		!bytes.Equal(out, sent) {
		t.Errorf("afterwards: %d bytes, %v", len(out), err)
	}
	if err := exec.Command("allium", "--home", home, "cat", b3.Sum(never).String()).Run(); err == nil {
		t.Error("what was cut is there")
	}
}

// awaitUploads asks a node until so many uploads are under way.
func awaitUploads(t *testing.T, home string, n int64) {
	t.Helper()
	out, err := exec.Command("allium", "--home", home, "--json", "id").Output()
	if err != nil {
		t.Fatal(err)
	}
	var id struct{ Admin string }
	if err := json.Unmarshal(out, &id); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the uploads", func() bool {
		resp, err := http.Get(id.Admin + "/limits")
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Limits []struct {
				Name    string
				Current int64
			}
		}
		err = json.NewDecoder(resp.Body).Decode(&page)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page.Limits {
			if l.Name == "gateway.uploads" && l.Current == n {
				return true
			}
		}
		return false
	})
}
