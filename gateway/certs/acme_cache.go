package certs

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"

	"allium/protocols/status"
)

// acmeCache stores the account's key and the certificates in a directory that only
// the node's user can read. The empty acmeCache stores nothing. A certificate's file
// has the name of its subject (fileOf); the key's file is acmeAccount, and acmeLedger has the orders.
type acmeCache string

// get returns the content of a file, or nil if there is none.
func (dir acmeCache) get(name string) ([]byte, error) {
	if dir == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(filepath.Join(string(dir), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return raw, err
}

// put replaces a file atomically. It does not sync the file.
func (dir acmeCache) put(name string, raw []byte) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(string(dir), name+".*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(string(dir), name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// list returns the names of at most n files.
func (dir acmeCache) list(n int) (names []string) {
	if dir == "" {
		return nil
	}
	d, err := os.Open(string(dir))
	if err != nil {
		return nil // nothing was stored yet
	}
	defer d.Close()
	names, _ = d.Readdirnames(n + listSpare) // what was read of them counts
	return names
}

// listSpare is room for files that are none of certificates on demand.
const listSpare = 2 * maxACMEDomains

// remove removes a file, if it can.
func (dir acmeCache) remove(name string) {
	if dir != "" {
		_ = os.Remove(filepath.Join(string(dir), name))
	}
}

// maxACMEBytes is the most bytes of answers in one attempt at a certificate. An attempt
// with more fails.
const maxACMEBytes = 4 << 20

// boundedAnswers is an HTTP transport that reads at most left bytes, all answers
// together. The ACME library itself has no bound: it reads each answer to its end and
// follows any number of links.
type boundedAnswers struct {
	http.RoundTripper
	left atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (b *boundedAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = &boundedAnswer{resp.Body, b}
	}
	return resp, err
}

// boundedAnswer is the body of one answer.
type boundedAnswer struct {
	io.ReadCloser
	of *boundedAnswers
}

func (a *boundedAnswer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if a.of.left.Add(-int64(n)) < 0 {
		return 0, status.Errorf(status.Upstream, "the ACME authority answers with more than %d bytes", maxACMEBytes)
	}
	return n, err
}
