package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"allium/bench/measure"
)

// alone keeps the commands of this part from the local network, and from public addresses.
var alone = []string{"ALLIUM_LISTEN__MDNS=false", "ALLIUM_LISTEN__PORT_MAP=false", "ALLIUM_NODE__PROFILE=testnet"}

// sharing is a share that runs without a node.
type sharing struct {
	cmd    *exec.Cmd
	ticket string
	took   time.Duration // from the start to the ticket
}

// share starts `allium share` in a new home.
func (s *settings) share(ctx context.Context, file, listen string) (*sharing, error) {
	home := filepath.Join(s.dir, "sharer")
	if err := os.RemoveAll(home); err != nil {
		return nil, err
	}
	if err := s.makeHome(ctx, home); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, s.allium, "--home", home, "share", file, "--listen", listen)
	cmd.Env = append(os.Environ(), alone...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("share printed no ticket: %w", errors.Join(err, cmd.Wait()))
	}
	return &sharing{cmd, strings.TrimSpace(line), time.Since(begun)}, nil
}

func (s *sharing) stop() error {
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return s.cmd.Wait()
}

// firstOutput runs a program and returns when its first byte came.
func firstOutput(ctx context.Context, name string, args ...string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), alone...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_, err = io.ReadFull(out, make([]byte, 1))
	took := time.Since(begun)
	_, drained := io.Copy(io.Discard, out)
	return took, errors.Join(err, drained, cmd.Wait())
}

// benchTicket measures how long share and get of a small file take, both cold, beside the start of the
// program alone.
func benchTicket(ctx context.Context, s *settings) ([]row, error) {
	file := filepath.Join(s.dir, "small.txt")
	if err := randomFile(file, 4<<10); err != nil {
		return nil, err
	}
	printed := row{What: "share: ticket of a small file after", Unit: "ms", Target: "≤ 300"}
	first := row{What: "get TICKET: first byte after", Unit: "ms", Target: "≤ 300"}
	start := row{What: "reference: allium version", Unit: "ms"}
	chars := row{What: "ticket of one address with a name", Unit: "characters", Target: "≤ 200"}
	for range s.rounds {
		shared, err := s.share(ctx, file, onTCP)
		if err != nil {
			return nil, err
		}
		got, err := firstOutput(ctx, s.allium, "--home", filepath.Join(s.dir, "none"), "get", shared.ticket, "-o", "-")
		if err != nil {
			return nil, err
		}
		alone, err := firstOutput(ctx, s.allium, "version")
		if err != nil {
			return nil, err
		}
		printed.Values, first.Values = append(printed.Values, ms(shared.took)), append(first.Values, ms(got))
		start.Values, chars.Values = append(start.Values, ms(alone)), append(chars.Values, float64(len(shared.ticket)))
		if err := shared.stop(); err != nil {
			return nil, err
		}
	}
	return []row{printed, first, start, chars}, nil
}

// benchByTicket measures a fetch of the large file by ticket, over TCP and QUIC, beside the same between two
// nodes that run.
func benchByTicket(ctx context.Context, s *settings) ([]row, error) {
	file := s.large()
	if err := randomFile(file, s.size); err != nil {
		return nil, err
	}
	rates := map[string][]float64{} // MB/s
	var nodes, writes []float64
	mbps := float64(s.size) / 1e6
	for range s.rounds {
		for _, listen := range []string{onQUIC, onTCP} { // TCP in the middle: it is compared with both others
			got, err := s.byTicket(ctx, file, listen)
			if err != nil {
				return nil, err
			}
			rates[listen] = append(rates[listen], mbps/got.wall.Seconds())
			writes = append(writes, float64(got.written)/float64(s.size))
		}
		seconds, err := s.betweenNodes(ctx, file)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, mbps/seconds)
	}
	return []row{
		{What: "get TICKET -o over TCP", Unit: "MB/s", Values: rates[onTCP]},
		{What: "get TICKET -o over QUIC", Unit: "MB/s", Values: rates[onQUIC]},
		{What: "get TICKET -o: writes of each byte", Unit: "×", Target: "≤ 1.1", Values: writes},
		{What: "get -o between two nodes that run", Unit: "MB/s", Values: nodes},
		{What: "by ticket ÷ between nodes", Unit: "×", Target: "≥ 0.9", Values: measure.Pairs(rates[onTCP], nodes)},
		{What: "by ticket, TCP ÷ QUIC", Unit: "×", Target: "≥ 1.8", Values: measure.Pairs(rates[onTCP], rates[onQUIC])},
	}, nil
}

// byTicket gets a file by ticket.
func (s *settings) byTicket(ctx context.Context, file, listen string) (usage, error) {
	shared, err := s.share(ctx, file, listen)
	if err != nil {
		return usage{}, err
	}
	out := filepath.Join(s.dir, "out")
	got, err := runIn(ctx, alone, s.allium, "--home", filepath.Join(s.dir, "none"), "get", shared.ticket, "-o", out)
	return got, errors.Join(err, shared.stop(), os.Remove(out))
}

// betweenNodes returns how many seconds a get of a file takes on a node that is connected to one that has it.
func (s *settings) betweenNodes(ctx context.Context, file string) (float64, error) {
	out := filepath.Join(s.dir, "out")
	homes := []string{filepath.Join(s.dir, "from"), filepath.Join(s.dir, "to")}
	for _, home := range homes {
		if err := os.RemoveAll(home); err != nil {
			return 0, err
		}
	}
	key, _, err := s.add(ctx, homes[0], file)
	if err != nil {
		return 0, err
	}
	from, err := s.startNode(ctx, homes[0])
	if err != nil {
		return 0, err
	}
	to, err := s.startNode(ctx, homes[1], from.Addr)
	if err != nil {
		return 0, err
	}
	if _, err := run(ctx, s.allium, "--home", homes[1], "connect", from.Addr); err != nil {
		return 0, err
	}
	got, err := run(ctx, s.allium, "--home", homes[1], "get", key, "-o", out)
	if err != nil {
		return 0, err
	}
	_, one := from.Stop()
	_, two := to.Stop()
	return got.wall.Seconds(), errors.Join(one, two, os.Remove(out))
}

const (
	settle  = 10 * time.Second // after the start of a node, before it counts as idle
	idleRun = 20 * time.Second // how long an idle node is watched in a round
)

// benchIdle measures what a node without peers does while nobody asks it anything.
func benchIdle(ctx context.Context, s *settings) ([]row, error) {
	cpu := row{What: "idle without peers: CPU", Unit: "% of a core", Target: "≤ 0.4"}
	wakes := row{What: "idle without peers: wake-ups", Unit: "/s", Target: "≤ 60"}
	p, err := s.startNode(ctx, filepath.Join(s.dir, "idle"))
	if err != nil {
		return nil, err
	}
	time.Sleep(settle)
	for range s.rounds {
		usedBefore, err := p.CPU()
		if err != nil {
			return nil, err
		}
		wokenBefore, err := p.Wakeups()
		if err != nil {
			return nil, err
		}
		time.Sleep(idleRun)
		used, err := p.CPU()
		if err != nil {
			return nil, err
		}
		woken, err := p.Wakeups()
		if err != nil {
			return nil, err
		}
		cpu.Values = append(cpu.Values, 100*(used-usedBefore).Seconds()/idleRun.Seconds())
		wakes.Values = append(wakes.Values, float64(woken-wokenBefore)/idleRun.Seconds())
	}
	_, err = p.Stop()
	return []row{cpu, wakes}, err
}
