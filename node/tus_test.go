package node_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"allium/internal/testkit"
	"allium/protocols/b3"
)

// TestTusClient: tus-js-client uploads to a node in one request and in pieces, goes on with an upload that it aborted,
// and tells its user by name that parallel uploads are not supported.
func TestTusClient(t *testing.T) {
	tools, err := filepath.Abs("../tools/tus")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		testkit.Missing(t, "needs node: whether tus-js-client uploads to a gateway is not tested")
	}
	if _, err := os.Stat(filepath.Join(tools, "node_modules", "tus-js-client")); err != nil {
		testkit.Missing(t, "tus-js-client is not installed: whether it uploads to a gateway is not tested; "+
			"run `make bin/tools/tus`")
	}
	noLeaks(t)
	defer http.DefaultClient.CloseIdleConnections()
	home := t.TempDir()
	token := mintForAnHour(t, home)
	n := startAt(t, home, nil)
	for i, test := range []struct {
		how     string
		size    int
		methods string // of the answers, in order
		refused string // a word of the error; the upload succeeds without one
	}{
		{how: "plain", size: 0, methods: "POST"},
		{how: "plain", size: 300_000, methods: "POST PATCH"},
		{how: "pieces", size: 3 * b3.GroupSize, methods: "POST PATCH PATCH PATCH"},
		{how: "pieces", size: 2*b3.GroupSize + 1, methods: "POST PATCH PATCH PATCH"},
		{how: "resume", size: 4*b3.GroupSize + 5, methods: "POST PATCH HEAD PATCH"},
		{how: "parallel", size: 300_000, refused: "Upload-Concat"},
	} {
		p := make([]byte, test.size)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(p) // never fails
		file := filepath.Join(t.TempDir(), "file")
		write(t, file, p)
		out := command(t, tools, "node", "upload.js", test.how, n.ID().Gateway+"/u", token, file)
		var seen struct {
			Methods         []string
			Offset          int64
			Location, Error string
		}
		if err := json.Unmarshal([]byte(out), &seen); err != nil {
			t.Fatalf("%s: %v: %s", test.how, err, out)
		}
		if test.refused != "" {
			// At the first request of each of the two parts.
			if !strings.Contains(seen.Error, test.refused) || !strings.Contains(seen.Error, "not supported") ||
				slices.ContainsFunc(seen.Methods, func(m string) bool { return m != http.MethodPost }) {
				t.Errorf("%s: %+v", test.how, seen)
			}
			continue
		}
		if got := strings.Join(seen.Methods, " "); seen.Error != "" || got != test.methods {
			t.Errorf("%s of %d bytes: %s, %+v", test.how, test.size, got, seen)
		}
		if test.how == "resume" && seen.Offset != b3.GroupSize {
			t.Errorf("it went on at %d", seen.Offset)
		}
		resp, err := http.Get(n.ID().Gateway + "/o/" + b3.Sum(p).String())
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // it was read
		if err != nil || resp.StatusCode != http.StatusOK || !bytes.Equal(got, p) {
			t.Errorf("%s of %d bytes: the node has %d bytes, %s, %v", test.how, test.size, len(got), resp.Status, err)
		}
		if test.size > 0 && seen.Location != "/o/"+b3.Sum(p).String() {
			t.Errorf("%s of %d bytes is at %q", test.how, test.size, seen.Location)
		}
	}
}
