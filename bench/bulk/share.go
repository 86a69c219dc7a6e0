package bulk

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

	"allium/bench/bed"
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
func share(ctx context.Context, s *bed.Settings, file, listen string) (*sharing, error) {
	home := filepath.Join(s.Dir, "sharer")
	if err := os.RemoveAll(home); err != nil {
		return nil, err
	}
	if err := s.MakeHome(ctx, home); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, s.Allium, "--home", home, "share", file, "--listen", listen)
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

// Ticket measures how long share and get of a small file take, both cold, beside the start of the
// program alone.
func Ticket(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	file := filepath.Join(s.Dir, "small.txt")
	if err := bed.RandomFile(file, 4<<10); err != nil {
		return nil, err
	}
	printed := measure.Row{What: "share: ticket of a small file after", Unit: "ms", Target: "≤ 300"}
	first := measure.Row{What: "get TICKET: first byte after", Unit: "ms", Target: "≤ 300"}
	start := measure.Row{What: "reference: allium version", Unit: "ms"}
	chars := measure.Row{What: "ticket of one address with a name", Unit: "characters", Target: "≤ 200"}
	for range s.Rounds {
		shared, err := share(ctx, s, file, bed.OnTCP)
		if err != nil {
			return nil, err
		}
		got, err := firstOutput(ctx, s.Allium, "--home", filepath.Join(s.Dir, "none"), "get", shared.ticket, "-o", "-")
		if err != nil {
			return nil, err
		}
		alone, err := firstOutput(ctx, s.Allium, "version")
		if err != nil {
			return nil, err
		}
		printed.Values, first.Values = append(printed.Values, bed.MS(shared.took)), append(first.Values, bed.MS(got))
		start.Values = append(start.Values, bed.MS(alone))
		chars.Values = append(chars.Values, float64(len(shared.ticket)))
		if err := shared.stop(); err != nil {
			return nil, err
		}
	}
	return []measure.Row{printed, first, start, chars}, nil
}

// ByTicket measures a fetch of the large file by ticket, over TCP and QUIC, beside the same between two
// nodes that run.
func ByTicket(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	file := s.Large()
	if err := bed.RandomFile(file, s.Size); err != nil {
		return nil, err
	}
	rates := map[string][]float64{} // MB/s
	var nodes, writes []float64
	mbps := float64(s.Size) / 1e6
	for range s.Rounds {
		for _, listen := range []string{bed.OnQUIC, bed.OnTCP} { // TCP in the middle: it is compared with both others
			got, err := byTicket(ctx, s, file, listen)
			if err != nil {
				return nil, err
			}
			rates[listen] = append(rates[listen], mbps/got.Wall.Seconds())
			writes = append(writes, float64(got.Written)/float64(s.Size))
		}
		seconds, err := betweenNodes(ctx, s, file)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, mbps/seconds)
	}
	return []measure.Row{
		{What: "get TICKET -o over TCP", Unit: "MB/s", Values: rates[bed.OnTCP]},
		{What: "get TICKET -o over QUIC", Unit: "MB/s", Values: rates[bed.OnQUIC]},
		{What: "get TICKET -o: writes of each byte", Unit: "×", Target: "≤ 1.1", Values: writes},
		{What: "get -o between two nodes that run", Unit: "MB/s", Values: nodes},
		{What: "by ticket ÷ between nodes", Unit: "×", Target: "≥ 0.9", Values: measure.Pairs(rates[bed.OnTCP], nodes)},
		{What: "by ticket, TCP ÷ QUIC", Unit: "×", Target: "≥ 1.8",
			Values: measure.Pairs(rates[bed.OnTCP], rates[bed.OnQUIC])},
	}, nil
}

// byTicket gets a file by ticket.
func byTicket(ctx context.Context, s *bed.Settings, file, listen string) (bed.Usage, error) {
	shared, err := share(ctx, s, file, listen)
	if err != nil {
		return bed.Usage{}, err
	}
	out := filepath.Join(s.Dir, "out")
	got, err := bed.RunIn(ctx, alone, s.Allium, "--home", filepath.Join(s.Dir, "none"), "get", shared.ticket, "-o", out)
	return got, errors.Join(err, shared.stop(), os.Remove(out))
}

// betweenNodes returns how many seconds a get of a file takes on a node that is connected to one that has it.
func betweenNodes(ctx context.Context, s *bed.Settings, file string) (float64, error) {
	out := filepath.Join(s.Dir, "out")
	homes := []string{filepath.Join(s.Dir, "from"), filepath.Join(s.Dir, "to")}
	for _, home := range homes {
		if err := os.RemoveAll(home); err != nil {
			return 0, err
		}
	}
	key, _, err := s.Add(ctx, homes[0], file)
	if err != nil {
		return 0, err
	}
	from, err := s.StartNode(ctx, homes[0])
	if err != nil {
		return 0, err
	}
	to, err := s.StartNode(ctx, homes[1], from.Addr)
	if err != nil {
		return 0, err
	}
	if _, err := s.Run(ctx, homes[1], "connect", from.Addr); err != nil {
		return 0, err
	}
	got, err := s.Run(ctx, homes[1], "get", key, "-o", out)
	if err != nil {
		return 0, err
	}
	_, one := from.Stop()
	_, two := to.Stop()
	return got.Wall.Seconds(), errors.Join(one, two, os.Remove(out))
}

const (
	settle  = 10 * time.Second // after the start of a node, before it counts as idle
	idleRun = 20 * time.Second // how long an idle node is watched in a round
)

// Idle measures what a node without peers does while nobody asks it anything.
func Idle(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
	cpu := measure.Row{What: "idle without peers: CPU", Unit: "% of a core", Target: "≤ 0.4"}
	wakes := measure.Row{What: "idle without peers: wake-ups", Unit: "/s", Target: "≤ 60"}
	p, err := s.StartNode(ctx, filepath.Join(s.Dir, "idle"))
	if err != nil {
		return nil, err
	}
	time.Sleep(settle)
	for range s.Rounds {
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
	return []measure.Row{cpu, wakes}, err
}
