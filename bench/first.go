package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"allium/bench/measure"
)

// The network that first bytes are measured in.
const (
	firstNodes   = 8
	firstObjects = 20 // of each size
	firstCounted = 15 // at least, of those
)

// benchFirstByte measures the first byte of an object's body through the
// gateway of a node that never heard of the object and has no connection to the
// one peer that holds it. It joins after the objects were published, so it holds
// no records of them either.
func benchFirstByte(ctx context.Context, s *settings) ([]row, error) {
	home := func(i int) string { return filepath.Join(s.dir, fmt.Sprintf("first%d", i)) }
	nodes := make([]*process, firstNodes)
	start := func(i int) (err error) {
		args := []string{"--home", home(i), "--log-level", "error", "run", "--profile", "testnet",
			"--gateway", "127.0.0.1:0"}
		if i > 0 {
			args = append(args, "--bootstrap", nodes[0].Addr)
		}
		nodes[i], err = measure.Start(ctx, nil, s.allium, args...)
		return err
	}
	provider, asker := 1, firstNodes-1
	for i := range asker {
		if err := start(i); err != nil {
			return nil, err
		}
	}
	sizes := []int64{64 << 10, 1 << 20}
	keys := make([][]string, len(sizes))
	for i, size := range sizes {
		for range firstObjects {
			key, err := s.publish(ctx, home(provider), size)
			if err != nil {
				return nil, err
			}
			keys[i] = append(keys[i], key)
		}
	}
	if err := start(asker); err != nil {
		return nil, err
	}
	provID, err := s.peerID(ctx, home(provider))
	if err != nil {
		return nil, err
	}
	rows := make([]row, len(sizes))
	for i, size := range sizes {
		rows[i] = row{What: fmt.Sprintf("first byte: cold, %d KiB of a stranger", size>>10), Unit: "ms", Target: "≤ 60"}
		for _, key := range keys[i] {
			if err := s.estrange(ctx, home(asker), provID); err != nil {
				return nil, err
			}
			took, err := firstByte(ctx, nodes[asker].Gate+"/o/"+key, size)
			if err != nil {
				return nil, err
			}
			dialled, err := s.dialled(ctx, home(asker), provID)
			if err != nil {
				return nil, err
			}
			if dialled {
				rows[i].Values = append(rows[i].Values, ms(took))
			}
		}
		if n := len(rows[i].Values); n < firstCounted {
			return nil, fmt.Errorf("the asking node dialled the provider for %d objects of %d; "+
				"the provider was first at the others", n, firstObjects)
		}
	}
	for _, n := range nodes {
		if _, err := n.Stop(); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// publish adds a random object to a running node and has it announced.
func (s *settings) publish(ctx context.Context, home string, size int64) (key string, err error) {
	f, err := os.CreateTemp(s.dir, "object")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if err := randomBytes(f, size); err != nil {
		return "", err
	}
	if key, _, err = s.add(ctx, home, f.Name()); err != nil {
		return "", err
	}
	_, err = run(ctx, s.allium, "--home", home, "announce", "-q", key)
	return key, err
}

func (s *settings) peerID(ctx context.Context, home string) (string, error) {
	out, err := run(ctx, s.allium, "--home", home, "id", "--json")
	if err != nil {
		return "", err
	}
	var id struct {
		ID string `json:"id"`
	}
	return id.ID, json.Unmarshal([]byte(out.out), &id)
}

// estrange closes the connections of a node to a peer and sees to it that there
// is none.
func (s *settings) estrange(ctx context.Context, home, id string) error {
	for range 10 {
		peers, err := run(ctx, s.allium, "--home", home, "peers", "-q")
		if err != nil {
			return err
		}
		if !strings.Contains(peers.out, id) {
			return nil
		}
		if _, err := run(ctx, s.allium, "--home", home, "disconnect", id); err != nil {
			return err
		}
	}
	return errors.New("the asking node stays connected to the provider")
}

// dialled reports whether the node itself dialled its connections to a peer. If the peer dialled the node in between,
// it was not a stranger.
func (s *settings) dialled(ctx context.Context, home, id string) (bool, error) {
	out, err := run(ctx, s.allium, "--home", home, "peers", "--json")
	if err != nil {
		return false, err
	}
	ours := false
	for d := json.NewDecoder(strings.NewReader(out.out)); d.More(); {
		var p struct {
			ID        string `json:"id"`
			Direction string `json:"direction"`
		}
		if err := d.Decode(&p); err != nil {
			return false, err
		}
		if p.ID == id && p.Direction != "out" {
			return false, nil
		}
		ours = ours || p.ID == id
	}
	return ours, nil
}

// firstByte returns the time from a request to the first byte of the answer's body, which must have size bytes.
func firstByte(ctx context.Context, url string, size int64) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	c := http.Client{Timeout: 10 * time.Second}
	defer c.CloseIdleConnections()
	begun := time.Now()
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	first := make([]byte, 1)
	_, err = io.ReadFull(resp.Body, first)
	took := time.Since(begun)
	if err != nil || resp.StatusCode != http.StatusOK {
		return 0, errors.Join(fmt.Errorf("%s: %s", url, resp.Status), err)
	}
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && n+1 != size {
		err = fmt.Errorf("%s: %d bytes, not %d", url, n+1, size)
	}
	return took, err
}
