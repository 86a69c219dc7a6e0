package main

import (
	"context"
	"os"
	"path/filepath"

	"allium/bench/bed"
	"allium/bench/measure"
)

// startGateway starts a node with one small object and returns the URL of that.
func startGateway(
	ctx context.Context, s *bed.Settings, name string,
) (p *measure.Process, page string, err error) {
	file, home := filepath.Join(s.Dir, name+".bin"), filepath.Join(s.Dir, name)
	if err := os.WriteFile(file, make([]byte, askSize), 0o600); err != nil {
		return nil, "", err
	}
	key, _, err := s.Add(ctx, home, file)
	if err != nil {
		return nil, "", err
	}
	if p, err = s.StartNode(ctx, home); err != nil {
		return nil, "", err
	}
	return p, p.Gate + "/o/" + key, nil
}
