package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"allium/bench/bed"
	"allium/bench/measure"
)

// The network that first bytes are measured in.
const (
	firstNodes   = 8
	firstObjects = 20 // of each size
	firstCounted = 15 // at least, of those
)

// FirstByte measures the first byte of an object's body through the
// gateway of a node that never heard of the object and has no connection to the
// one peer that holds it. It joins after the objects were published, so it holds
// no records of them either.
func FirstByte(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	home := func(i int) string { return filepath.Join(s.Dir, fmt.Sprintf("first%d", i)) }
	nodes := make([]*measure.Process, firstNodes)
	start := func(i int) (err error) {
		args := []string{"--home", home(i), "--log-level", "error", "run", "--profile", "testnet",
			"--gateway", "127.0.0.1:0"}
		if i > 0 {
			args = append(args, "--bootstrap", nodes[0].Addr)
		}
		nodes[i], err = measure.Start(ctx, nil, s.Allium, args...)
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
			key, err := s.Publish(ctx, home(provider), size)
			if err != nil {
				return nil, err
			}
			keys[i] = append(keys[i], key)
		}
	}
	if err := start(asker); err != nil {
		return nil, err
	}
	provID, err := peerID(ctx, s, home(provider))
	if err != nil {
		return nil, err
	}
	rows := make([]measure.Row, len(sizes))
	for i, size := range sizes {
		rows[i] = measure.Row{What: fmt.Sprintf("first byte: cold, %d KiB of a stranger", size>>10),
			Unit: "ms", Target: "≤ 60"}
		for _, key := range keys[i] {
			if err := estrange(ctx, s, home(asker), provID); err != nil {
				return nil, err
			}
			took, err := bed.FirstByte(ctx, nodes[asker].Gate+"/o/"+key, size)
			if err != nil {
				return nil, err
			}
			dialled, err := dialled(ctx, s, home(asker), provID)
			if err != nil {
				return nil, err
			}
			if dialled {
				rows[i].Values = append(rows[i].Values, bed.MS(took))
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

func peerID(ctx context.Context, s *bed.Settings, home string) (string, error) {
	out, err := s.Run(ctx, home, "id", "--json")
	if err != nil {
		return "", err
	}
	var id struct {
		ID string `json:"id"`
	}
	return id.ID, json.Unmarshal([]byte(out.Out), &id)
}

// estrange closes the connections of a node to a peer and sees to it that there
// is none.
func estrange(ctx context.Context, s *bed.Settings, home, id string) error {
	for range 10 {
		peers, err := s.Run(ctx, home, "peers", "-q")
		if err != nil {
			return err
		}
		if !strings.Contains(peers.Out, id) {
			return nil
		}
		if _, err := s.Run(ctx, home, "disconnect", id); err != nil {
			return err
		}
	}
	return errors.New("the asking node stays connected to the provider")
}

// dialled reports whether the node itself dialled its connections to a peer. If the peer dialled the node in between,
// it was not a stranger.
func dialled(ctx context.Context, s *bed.Settings, home, id string) (bool, error) {
	out, err := s.Run(ctx, home, "peers", "--json")
	if err != nil {
		return false, err
	}
	ours := false
	for d := json.NewDecoder(strings.NewReader(out.Out)); d.More(); {
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
