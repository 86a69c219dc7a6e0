package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"allium/bench/measure"
)

// startNode starts a node of a testnet on loopback, and returns when it is ready.
func (s *settings) startNode(ctx context.Context, home string, seeds ...string) (*measure.Process, error) {
	args := []string{
		"--home", home, "--log-level", "error", "run", "--profile", "testnet", "--listen", "/ip4/127.0.0.1/tcp/0",
	}
	for _, seed := range seeds {
		args = append(args, "--bootstrap", seed)
	}
	return measure.Start(ctx, s.env, s.allium, args...)
}

// startGateway starts a node with one small object and returns the URL of that.
func (s *settings) startGateway(ctx context.Context, name string) (p *measure.Process, page string, err error) {
	file, home := filepath.Join(s.dir, name+".bin"), filepath.Join(s.dir, name)
	if err := os.WriteFile(file, make([]byte, askSize), 0o600); err != nil {
		return nil, "", err
	}
	if err := exec.CommandContext(ctx, s.allium, "--home", home, "init").Run(); err != nil {
		return nil, "", err
	}
	key, err := exec.CommandContext(ctx, s.allium, "--home", home, "add", "-q", file).Output()
	if err != nil {
		return nil, "", err
	}
	if p, err = s.startNode(ctx, home); err != nil {
		return nil, "", err
	}
	return p, p.Gate + "/o/" + strings.TrimSpace(string(key)), nil
}
