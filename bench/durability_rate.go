package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"allium/bench/measure"
)

// The rates of copies that somebody waits for.
const (
	rateRounds = 3 // at most: each stores the large file three times
	codedNodes = 9 // that 6+3 needs
	codedPart  = 4 // the large file is so many times as large as what is coded
)

// benchReplicate measures an add of the large file that waits for a copy on another node, beside a cold fetch from the
// same node; and the same with a directory of small files and two more nodes.
func benchReplicate(ctx context.Context, s *settings) ([]row, error) {
	if err := randomFile(s.large(), s.size); err != nil {
		return nil, err
	}
	small := filepath.Join(s.dir, "copied")
	if err := smallFiles(small, s.files); err != nil {
		return nil, err
	}
	var send, fetch, many, fetchMany []float64
	mbps, files := float64(s.size)/1e6, float64(s.files)
	for range min(s.rounds, rateRounds) {
		sent, got, err := s.replicate(ctx, s.large(), 2)
		if err != nil {
			return nil, err
		}
		send, fetch = append(send, mbps/sent), append(fetch, mbps/got)
		if sent, got, err = s.replicate(ctx, small, 3); err != nil {
			return nil, err
		}
		many, fetchMany = append(many, files/sent), append(fetchMany, files/got)
	}
	dir := fmt.Sprintf("%d files", s.files)
	return []row{
		{What: "add --rf 2 of what is stored: rate", Unit: "MB/s", Values: send},
		{What: "cold fetch from the same node", Unit: "MB/s", Values: fetch},
		{What: "add --rf 2 ÷ cold fetch", Unit: "×", Target: "≥ 0.85", Values: measure.Pairs(send, fetch)},
		{What: dir + ": add --rf 3 of what is stored", Unit: "files/s", Values: many},
		{What: dir + ": cold fetch from the same node", Unit: "files/s", Values: fetchMany},
		{What: dir + ": add --rf 3 ÷ cold fetch", Unit: "×", Target: "≥ 0.5", Values: measure.Pairs(many, fetchMany)},
	}, nil
}

// replicate returns how many seconds it takes until copies nodes have a file or directory that one of them has
// already, and how many a cold fetch from that one takes.
func (s *settings) replicate(ctx context.Context, path string, copies int) (send, fetch float64, err error) {
	// A testnet looks at all objects every second and audits each within ten: that is another load.
	c, err := s.startCluster(ctx, "replicate", asUsual, "", copies)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	from := c.members[0]
	added, err := run(ctx, s.allium, "--home", from.home, "add", "-q", path)
	if err != nil {
		return 0, 0, err
	}
	sent, err := run(ctx, s.allium, "--home", from.home, "add", "-q", path, "--rf", fmt.Sprint(copies))
	if err != nil {
		return 0, 0, err
	}
	if err := c.kill(c.members[1:]); err != nil { // so that the fetch asks one node
		return 0, 0, err
	}
	got, err := s.fetchCold(ctx, onTCP, from.process, strings.TrimSpace(added.out))
	return sent.wall.Seconds(), got.seconds, err
}

// benchEncode measures an add that waits for shards on other nodes, by the bytes sent, beside one that waits for a copy
// on one of the same nodes. Each round adds new content.
func benchEncode(ctx context.Context, s *settings) (_ []row, err error) {
	c, err := s.startCluster(ctx, "encode", asTestnet, "", codedNodes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	size := max(s.size/codedPart, 1<<20)
	add := func(flags ...string) (seconds float64, err error) {
		file := filepath.Join(s.dir, "coded")
		if err := newFile(file, size); err != nil {
			return 0, err
		}
		args := []string{"--home", c.members[0].home, "add", "-q", file}
		if _, err := run(ctx, s.allium, args...); err != nil {
			return 0, err
		}
		u, err := run(ctx, s.allium, append(args, flags...)...)
		return u.wall.Seconds(), errors.Join(err, os.Remove(file))
	}
	var coded, copied []float64
	for range min(s.rounds, rateRounds) {
		took, err := add("--ec", "6+3")
		if err != nil {
			return nil, err
		}
		// Of the nine shards, this node's own counts without being sent.
		coded = append(coded, float64(size)/6*(codedNodes-1)/1e6/took)
		if took, err = add("--rf", "2"); err != nil {
			return nil, err
		}
		copied = append(copied, float64(size)/1e6/took)
		time.Sleep(filesRest)
	}
	return []row{
		{What: fmt.Sprintf("add --ec 6+3 of %.0f MB: bytes sent", float64(size)/1e6), Unit: "MB/s", Values: coded},
		{What: "add --rf 2 of as much", Unit: "MB/s", Values: copied},
		{What: "add --ec 6+3 ÷ add --rf 2, by bytes sent", Unit: "×", Target: "≥ 0.6",
			Values: measure.Pairs(coded, copied)},
	}, nil
}

// newFile makes a file of bytes that were never stored before.
func newFile(name string, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(randomBytes(f, size), f.Close())
}
