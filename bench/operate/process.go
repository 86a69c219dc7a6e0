package main

import (
	"context"
	"os"
	"path/filepath"

	"allium/bench/measure"
)

// nodes starts nodes of this run.
func (s *settings) nodes() measure.Nodes { return measure.Nodes{Allium: s.allium, Env: s.env} }

// startNode starts a node of a testnet on loopback, and returns when it is ready.
func (s *settings) startNode(ctx context.Context, home string, seeds ...string) (*measure.Process, error) {
	return s.nodes().Start(ctx, home, seeds...)
}

// startGateway starts a node with one small object and returns the URL of that.
func (s *settings) startGateway(ctx context.Context, name string) (p *measure.Process, page string, err error) {
	file, home := filepath.Join(s.dir, name+".bin"), filepath.Join(s.dir, name)
	if err := os.WriteFile(file, make([]byte, askSize), 0o600); err != nil {
		return nil, "", err
	}
	key, err := s.nodes().Add(ctx, home, file)
	if err != nil {
		return nil, "", err
	}
	if p, err = s.startNode(ctx, home); err != nil {
		return nil, "", err
	}
	return p, p.Gate + "/o/" + key, nil
}
