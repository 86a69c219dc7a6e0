package testnet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/node/files"
	"allium/protocols/status"
)

// GoSource returns the directory of the Go distribution's own source: ten thousand real
// files that exist wherever this program can be built.
func GoSource(ctx context.Context) (string, error) {
	root := os.Getenv("GOROOT")
	if root == "" {
		out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return "", status.Errorf(status.NotFound,
				"the Go distribution is not found (go env GOROOT: %w); name a directory to add with --dir", err)
		}
		root = strings.TrimSpace(string(out))
	}
	return filepath.Join(root, "src"), nil
}

// Demo adds dir on one node, lets another one find, fetch and extract it, compares both
// trees and reads from the gateway. It prints to w what it did, with rates. It returns an
// error when any of this fails.
func (n *Net) Demo(ctx context.Context, w io.Writer, dir string) error {
	if len(n.Members) < 2 {
		return status.Errorf(status.BadRequest, "the demonstration needs two nodes, there is %d", len(n.Members))
	}
	from, to := n.Members[1%len(n.Members)], n.Members[len(n.Members)-1]
	if from == to {
		from = n.Members[0]
	}
	added, err := demoAdd(ctx, w, from, dir)
	if err != nil {
		return err
	}
	if err := demoFind(ctx, w, from, to, added); err != nil {
		return err
	}
	if err := n.demoFetch(ctx, w, to, added, dir); err != nil {
		return err
	}
	return demoGateway(ctx, w, to, added, dir)
}

func demoAdd(ctx context.Context, w io.Writer, m *Member, dir string) (api.Added, error) {
	begun := time.Now()
	for added, err := range files.SendItems(ctx, m.API, files.DiskItems(dir), api.AddOptions{Label: "demo"}, nil) {
		if err != nil {
			return api.Added{}, fmt.Errorf("add %s on %s: %w", dir, m.Name, err)
		}
		took := time.Since(begun)
		fmt.Fprintf(w, "added    %s on %s: %d files, %s in %s (%s)\n         %s\n",
			dir, m.Name, added.Files, limits.Bytes(added.Bytes).Human(), round(took),
			rates(added.Files, added.Bytes, took),
			added.Root)
		return added, nil
	}
	return api.Added{}, status.Errorf(status.Internal, "%s added nothing", m.Name)
}

// demoFind waits until a lookup in the DHT on one node finds the other. It waits because
// the add announces in the background.
func demoFind(ctx context.Context, w io.Writer, from, to *Member, added api.Added) error {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		for p, err := range to.API.Providers(ctx, added.Root.String(), 5) {
			if err == nil && p.ID == from.ID().ID {
				fmt.Fprintf(w, "found    %s as its provider, from %s through the DHT, %s after the add\n", from.Name,
					to.Name,
					round(time.Since(begun)))
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return status.Errorf(status.NotFound, "%s does not find %s as a provider of %s",
				to.Name, from.Name, added.Root)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (n *Net) demoFetch(ctx context.Context, w io.Writer, to *Member, added api.Added, dir string) error {
	begun := time.Now()
	f, err := to.API.Fetch(ctx, added.Root.String(), nil)
	if err != nil {
		return fmt.Errorf("fetch on %s: %w", to.Name, err)
	}
	took := time.Since(begun)
	fmt.Fprintf(w, "fetched  it on %s: %d objects, %s in %s (%s), every 64 KiB proved\n",
		to.Name, f.Objects, limits.Bytes(f.New).Human(), round(took), rates(f.Objects, f.New, took))

	begun = time.Now()
	copies, err := os.MkdirTemp(n.dir, "copy-")
	if err != nil {
		return fmt.Errorf("testnet: %w", err)
	}
	out := filepath.Join(copies, filepath.Base(dir))
	s, err := to.API.Get(ctx, added.Root.String())
	if err != nil {
		return fmt.Errorf("get from %s: %w", to.Name, err)
	}
	defer s.Body.Close()
	if err := files.Extract(s, out, files.ExtractOptions{}, nil); err != nil {
		return fmt.Errorf("get from %s: %w", to.Name, err)
	}
	fmt.Fprintf(w, "written  to disk in %s\n", round(time.Since(begun)))
	count, err := Compare(dir, out)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "compared %d entries with the original: no difference\n", count)
	return nil
}

// demoGateway reads a directory listing and a file as a browser does.
func demoGateway(ctx context.Context, w io.Writer, m *Member, added api.Added, dir string) error {
	base := m.ID().Gateway + "/b3/" + added.Root.String() + "/"
	file, err := firstFile(dir)
	if err != nil {
		return err
	}
	u := url.URL{Path: file}
	for _, page := range []struct {
		what, url, local string
	}{{"listing", base, ""}, {"file", base + u.EscapedPath(), filepath.Join(dir, filepath.FromSlash(file))}} {
		if err := checkPage(ctx, page.url, page.local); err != nil {
			return fmt.Errorf("gateway of %s: %s: %w", m.Name, page.what, err)
		}
		fmt.Fprintf(w, "%-8s %s\n", page.what, page.url)
	}
	return nil
}

// pageTimeout bounds the request for one page, with its body.
const pageTimeout = time.Minute

// checkPage requests a page. When local is set, it compares the body with that file.
func checkPage(ctx context.Context, page, local string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: pageTimeout}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return status.Errorf(status.Upstream, "%s answers %s", page, resp.Status)
	}
	if local == "" {
		if t := resp.Header.Get("Content-Type"); !strings.HasPrefix(t, "text/html") {
			return status.Errorf(status.Upstream, "%s is %s, not a page", page, t)
		}
		_, err := io.Copy(io.Discard, resp.Body)
		return err
	}
	f, err := os.Open(local)
	if err != nil {
		return err
	}
	defer f.Close()
	return sameBytes(page, f, resp.Body)
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

func rates(things, bytes int64, d time.Duration) string {
	s := d.Seconds()
	return fmt.Sprintf("%.0f/s, %s/s", float64(things)/s, limits.Bytes(int64(float64(bytes)/s)).Human())
}
