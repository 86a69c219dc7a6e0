package redundancy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"allium/bench/bed"
	"allium/bench/measure"
)

// The rates of copies that somebody waits for.
const (
	rateRounds = 3 // at most: each stores the large file three times
	codedNodes = 9 // that 6+3 needs
	codedPart  = 4 // the large file is so many times as large as what is coded
)

// Replicate measures an add of the large file that waits for a copy on another node, beside a cold fetch from the
// same node; and the same with a directory of small files and two more nodes.
func Replicate(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	if err := bed.RandomFile(s.Large(), s.Size); err != nil {
		return nil, err
	}
	small := filepath.Join(s.Dir, "copied")
	if err := bed.SmallFiles(small, s.Files); err != nil {
		return nil, err
	}
	var send, fetch, many, fetchMany []float64
	mbps, files := float64(s.Size)/1e6, float64(s.Files)
	for range min(s.Rounds, rateRounds) {
		sent, got, err := replicate(ctx, s, s.Large(), 2)
		if err != nil {
			return nil, err
		}
		send, fetch = append(send, mbps/sent), append(fetch, mbps/got)
		if sent, got, err = replicate(ctx, s, small, 3); err != nil {
			return nil, err
		}
		many, fetchMany = append(many, files/sent), append(fetchMany, files/got)
	}
	dir := fmt.Sprintf("%d files", s.Files)
	return []measure.Row{
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
func replicate(ctx context.Context, s *bed.Settings, path string, copies int) (send, fetch float64, err error) {
	// A testnet looks at all objects every second and audits each within ten: that is another load.
	c, err := startCluster(ctx, s, "replicate", bed.AsUsual, "", copies)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	from := c.members[0]
	added, err := s.Run(ctx, from.home, "add", "-q", path)
	if err != nil {
		return 0, 0, err
	}
	sent, err := s.Run(ctx, from.home, "add", "-q", path, "--rf", fmt.Sprint(copies))
	if err != nil {
		return 0, 0, err
	}
	if err := c.kill(c.members[1:]); err != nil { // so that the fetch asks one node
		return 0, 0, err
	}
	got, err := s.FetchCold(ctx, bed.OnTCP, from.Process, strings.TrimSpace(added.Out))
	return sent.Wall.Seconds(), got.Seconds, err
}

// Encode measures an add that waits for shards on other nodes, by the bytes sent, beside one that waits for a copy
// on one of the same nodes. Each round adds new content.
func Encode(ctx context.Context, s *bed.Settings) (_ []measure.Row, err error) {
	c, err := startCluster(ctx, s, "encode", bed.AsTestnet, "", codedNodes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	size := max(s.Size/codedPart, 1<<20)
	add := func(flags ...string) (seconds float64, err error) {
		file := filepath.Join(s.Dir, "coded")
		if err := newFile(file, size); err != nil {
			return 0, err
		}
		args := []string{"--home", c.members[0].home, "add", "-q", file}
		if _, err := bed.Run(ctx, s.Allium, args...); err != nil {
			return 0, err
		}
		u, err := bed.Run(ctx, s.Allium, append(args, flags...)...)
		return u.Wall.Seconds(), errors.Join(err, os.Remove(file))
	}
	var coded, copied []float64
	for range min(s.Rounds, rateRounds) {
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
		time.Sleep(bed.Rest)
	}
	return []measure.Row{
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
	return errors.Join(bed.RandomBytes(f, size), f.Close())
}
