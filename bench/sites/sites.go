// Package sites measures websites: how long a browser takes for a page of many files beside Caddy, and what ten
// thousand domains cost a node.
package sites

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"allium/bench/measure"
	"allium/protocols/b3"
)

// Config says what is measured.
type Config struct {
	Allium string // the binary under test
	Dir    string // for the nodes and the files
	Rounds int
}

func (c Config) nodes() measure.Nodes { return measure.Nodes{Allium: c.Allium} }

// Measure measures both.
func Measure(ctx context.Context, c Config) ([]measure.Row, error) {
	page, err := load(ctx, c)
	if err != nil {
		return nil, err
	}
	many, err := measureDomains(ctx, c)
	return append(page, many...), err
}

// load loads a page in Chromium from Caddy, from a node that has it, and from a new node each time that gets it from
// the other. It skips that without chromium and caddy in PATH, and says so. Everything is over HTTP/1.1 without TLS, at
// hosts below localhost. Each load is in a new browser context: without cache and connections.
func load(ctx context.Context, c Config) (rows []measure.Row, err error) {
	program, browserErr := findBrowser()
	caddy, caddyErr := exec.LookPath("caddy")
	if err := errors.Join(browserErr, caddyErr); err != nil {
		fmt.Printf("a page in a browser: not measured, as programs are missing: %v\n",
			strings.ReplaceAll(err.Error(), "\n", "; "))
		return nil, nil
	}
	dir, home, cold := filepath.Join(c.Dir, "page"), filepath.Join(c.Dir, "site"), filepath.Join(c.Dir, "cold")
	if err := write(dir); err != nil {
		return nil, err
	}
	key, err := c.nodes().Add(ctx, home, dir)
	if err != nil {
		return nil, err
	}
	node, err := c.nodes().Start(ctx, home)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, node.End()) }()
	other, err := startCaddy(ctx, caddy, dir)
	if err != nil {
		return nil, err
	}
	defer other.stop()
	b, err := openBrowser(ctx, program, filepath.Join(c.Dir, "browser"))
	if err != nil {
		return nil, err
	}
	defer b.close()
	fmt.Printf("a page in a browser: beside Caddy %s, in %s\n", other.version, b.version)
	own, err := hostOf(node.Gate, key)
	if err != nil {
		return nil, err
	}
	fromPeer := func() (float64, error) {
		if err := os.RemoveAll(cold); err != nil {
			return 0, err
		}
		p, err := c.nodes().Start(ctx, cold, node.Addr)
		if err != nil {
			return 0, err
		}
		defer func() { _ = p.End() }()
		if _, err := c.nodes().Run(ctx, cold, "connect", node.Addr); err != nil {
			return 0, err
		}
		at, err := hostOf(p.Gate, key)
		if err != nil {
			return 0, err
		}
		return b.load(at)
	}
	loads := []struct {
		what string
		load func() (float64, error)
		took []float64
	}{
		{what: "Caddy", load: func() (float64, error) { return b.load(other.url) }},
		{what: "a host of its own", load: func() (float64, error) { return b.load(own) }},
		{what: "the same, cold from a peer", load: fromPeer},
	}
	for round := range c.Rounds + 1 { // the first warms all
		for i := range loads {
			l := &loads[(i+round)%len(loads)] // no one always comes after the same
			took, err := l.load()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l.what, err)
			}
			if round > 0 {
				l.took = append(l.took, took)
			}
		}
	}
	for _, l := range loads {
		rows = append(rows, measure.Row{What: pageOf + l.what, Unit: "ms", Values: l.took})
	}
	return append(rows,
		measure.Row{What: pageOf + "÷ Caddy", Unit: "×", Target: "≤ 1.2",
			Values: measure.Pairs(loads[1].took, loads[0].took)},
		measure.Row{What: pageOf + "cold ÷ Caddy", Unit: "×", Target: "≤ 3",
			Values: measure.Pairs(loads[2].took, loads[0].took)}), nil
}

const pageOf = "a page of 30 files: "

// The page, all of whose files are of fileSize bytes but for itself.
const (
	filesOfKind = 10 // scripts, styles, and images
	fileSize    = 10 << 10
	imageSide   = 50 // pixels: such an image of noise has about fileSize bytes
)

// write writes a page with random bytes, so each run has another page.
func write(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	var head, body strings.Builder
	for i := range filesOfKind {
		noise := make([]byte, fileSize)
		_, _ = crand.Read(noise) // never fails
		text := "/*" + base64.StdEncoding.EncodeToString(noise)[:fileSize-4] + "*/"
		picture := &image.NRGBA{Pix: noise[:4*imageSide*imageSide], Stride: 4 * imageSide,
			Rect: image.Rect(0, 0, imageSide, imageSide)}
		var img bytes.Buffer
		if err := png.Encode(&img, picture); err != nil {
			return err
		}
		for name, content := range map[string]string{"js": text, "css": text, "png": img.String()} {
			err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.%s", i, name)), []byte(content), 0o600)
			if err != nil {
				return err
			}
		}
		fmt.Fprintf(&head, "<link rel=\"stylesheet\" href=\"%d.css\">\n", i)
		fmt.Fprintf(&body, "<img src=\"%d.png\" alt=\"\"><script src=\"%[1]d.js\"></script>\n", i)
	}
	page := "<!doctype html><html lang=\"en\"><title>A page</title><link rel=\"icon\" href=\"data:,\">\n" +
		head.String() + "<h1>A page</h1>\n" + body.String()
	return os.WriteFile(filepath.Join(dir, "index.html"), []byte(page), 0o600)
}

// hostOf returns the URL of the host of a root at a gateway on loopback.
func hostOf(gate, key string) (string, error) {
	root, err := b3.Parse(key)
	_, port, ok := strings.Cut(strings.TrimPrefix(gate, "http://"), ":")
	if !ok {
		return "", fmt.Errorf("the gateway %q has no port", gate)
	}
	return "http://" + root.CID().String() + ".b3.localhost:" + port + "/", err
}
