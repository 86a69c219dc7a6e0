package testnet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Remote is a network that another process runs.
type Remote struct {
	Dir  string
	http *http.Client
}

// maxAnswer bounds the lines and values of the control socket.
const maxAnswer = 1 << 20

// Dial returns the network in a directory that Find has found. It does not connect yet.
func Dial(dir string) (*Remote, error) {
	path, err := api.SocketPath(dir)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: askWithin}
	return &Remote{Dir: dir, http: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if err := api.CheckSocketDir(filepath.Dir(path)); err != nil {
				return nil, err
			}
			return d.DialContext(ctx, "unix", path)
		},
	}}}, nil
}

// Run plays lines of steps one after the other and calls report with the result of each.
// It returns the error of the first step that failed.
func (r *Remote) Run(ctx context.Context, lines []string, report func(Event)) error {
	body, err := r.call(ctx, http.MethodPost, "run", strings.Join(lines, "\n")+"\n")
	if err != nil {
		return err
	}
	defer body.Close()
	sc := bufio.NewScanner(body)
	sc.Buffer(nil, maxAnswer)
	for sc.Scan() {
		var l api.Line
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			return r.strange(err)
		}
		switch {
		case l.Error != nil:
			return l.Error.Err(status.Internal.Code())
		case l.OK != nil:
			return nil
		case l.Item != nil:
			var e Event
			if err := json.Unmarshal(l.Item, &e); err != nil {
				return r.strange(err)
			}
			report(e)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return status.Errorf(status.TransportDown, "the network in %s ended meanwhile: %w", r.Dir,
		errors.Join(sc.Err(), io.ErrUnexpectedEOF))
}

// Status returns the state of the network.
func (r *Remote) Status(ctx context.Context) (Status, error) {
	var s Status
	ctx, cancel := context.WithTimeout(ctx, 4*askWithin)
	defer cancel()
	body, err := r.call(ctx, http.MethodGet, "status", "")
	if err != nil {
		return s, err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(&s); err != nil {
		return s, r.strange(err)
	}
	return s, nil
}

// Down ends the network and waits until its process has cleaned up.
func (r *Remote) Down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	body, err := r.call(ctx, http.MethodPost, "down", "")
	if err != nil {
		return err
	}
	if err := body.Close(); err != nil {
		return err
	}
	for {
		f, err := look(r.Dir)
		if errors.Is(err, os.ErrNotExist) || err == nil && !f.Alive {
			return nil
		}
		if limits.Sleep(ctx, pollEvery) != nil {
			return status.Errorf(status.Timeout, "the network in %s does not end; kill the process that runs it", r.Dir)
		}
	}
}

func (r *Remote) call(ctx context.Context, method, verb, body string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://testnet/v1/"+verb, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := r.http.Do(req)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, status.Errorf(status.TransportDown,
			"the network in %s does not answer: %w; it may be starting or ending", r.Dir, err)
	case resp.StatusCode == http.StatusOK:
		return resp.Body, nil
	}
	defer resp.Body.Close()
	var report status.Report
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&report); err != nil {
		return nil, r.strange(err)
	}
	return nil, report.Err(resp.StatusCode)
}

func (r *Remote) strange(err error) error {
	return status.Errorf(status.Upstream,
		"the network in %s does not answer as this version of allium expects: %w", r.Dir, err)
}

// Clear removes what a dead network left. Its nodes that still run as processes are told
// to drain. Then their homes are removed.
func Clear(ctx context.Context, dir string) (ended int, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return 0, err
	}
	f, err := look(dir)
	switch {
	case err != nil:
		return 0, status.Errorf(status.NotFound, "%s is not the directory of a testnet: %w", dir, err)
	case f.Alive:
		return 0, status.Errorf(status.Conflict, "the network in %s is running", dir)
	}
	homes, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, h := range homes {
		if h.IsDir() && drainLeft(ctx, filepath.Join(dir, h.Name())) {
			ended++
		}
	}
	ctx, cancel := context.WithTimeout(ctx, killAfter)
	defer cancel()
	for { // a node that answers no more may still close its store
		if err = os.RemoveAll(dir); err == nil || limits.Sleep(ctx, pollEvery) != nil {
			return ended, err
		}
	}
}

// drainLeft ends the node of a home if it still runs. It reports whether it did.
func drainLeft(ctx context.Context, home string) bool {
	socket, err := api.SocketPath(home)
	if err != nil {
		return false
	}
	c, err := client.New(socket)
	if err != nil {
		return false
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, killAfter)
	defer cancel()
	if c.Drain(ctx) != nil {
		return false
	}
	for { // until it does not answer: it must not write after its home is removed
		if _, err := c.Version(ctx); err != nil || limits.Sleep(ctx, 50*time.Millisecond) != nil {
			return true
		}
	}
}
