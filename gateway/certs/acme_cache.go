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

// acmeCache keeps the account's key and the certificates in a directory, which only
// the node's user can read; an empty one keeps nothing. The names of files are those
// of domains, and acmeAccount.
type acmeCache string

// get returns what was kept under a name, nil if there is nothing.
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

// put keeps raw under a name: the whole of it, or what was there before.
func (dir acmeCache) put(name string, raw []byte) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(string(dir), name+".*") // 0600
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

// acmeBytes is the most that is read of the authority's answers in one attempt at a
// certificate; with more it fails.
const acmeBytes = 4 << 20

// boundedAnswers reads at most left bytes of all answers together: the ACME library
// reads each to its end, and follows any number of links.
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

type boundedAnswer struct {
	io.ReadCloser
	of *boundedAnswers
}

func (a *boundedAnswer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if a.of.left.Add(-int64(n)) < 0 {
		return 0, status.Errorf(status.Upstream, "the ACME authority answers with more than %d bytes", acmeBytes)
	}
	return n, err
}
