package main

import (
	"context"
	"os"
	"strings"

	"allium/bench/measure"
)

// Where a node or a reference server listens: on loopback, on any port.
const (
	onTCP  = "/ip4/127.0.0.1/tcp/0"
	onQUIC = "/ip4/127.0.0.1/udp/0/quic-v1"
)

// startNode starts a node on loopback TCP alone.
func (s *settings) startNode(ctx context.Context, home string, bootstrap ...string) (*process, error) {
	return s.startNodeOn(ctx, onTCP, home, bootstrap...)
}

func (s *settings) startNodeOn(ctx context.Context, listen, home string, bootstrap ...string) (*process, error) {
	return s.startNodeAs(ctx, asTestnet, listen, home, bootstrap...)
}

// The flags of a node of a testnet, and of one as most people run it.
var (
	asTestnet = []string{"--profile", "testnet"}
	asUsual   = []string{"--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
)

func (s *settings) startNodeAs(
	ctx context.Context, flags []string, listen, home string, bootstrap ...string,
) (*process, error) {
	args := append([]string{"--home", home, "--log-level", "error", "run", "--listen", listen}, flags...)
	for _, b := range bootstrap {
		args = append(args, "--bootstrap", b)
	}
	return measure.Start(ctx, s.env, s.allium, args...)
}

// makeHome makes a home where none is: only `init` and `run` make one.
func (s *settings) makeHome(ctx context.Context, home string) error {
	if _, err := os.Stat(home); err == nil {
		return nil
	}
	_, err := run(ctx, s.allium, "--home", home, "init")
	return err
}

// add adds a file or directory to the store of home, which it makes if there is none. It returns the address, and what
// the add took.
func (s *settings) add(ctx context.Context, home, path string) (key string, took usage, err error) {
	if err := s.makeHome(ctx, home); err != nil {
		return "", took, err
	}
	took, err = run(ctx, s.allium, "--home", home, "add", "-q", path)
	return strings.TrimSpace(took.out), took, err
}

// The types that every program of the measurements shares.
type (
	process = measure.Process
	row     = measure.Row
)
