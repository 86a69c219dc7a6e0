package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/b3"
	"allium/protocols/ticket"
)

// bashrc is a ticket that suggests the name ../.bashrc.
const bashrc = "allium15cqqzq2cyqqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqccvsz9sfsqysyqzy3qzyg" +
	"3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygstq2gq3lsqqqpqcqqzzr29chz7tnzv9eksunr0nt55z"

// otherService accepts connections, keeps what it is sent, and answers with the text.
type otherService struct {
	l      net.Listener
	answer string

	mu   sync.Mutex
	sent []string
}

func newOtherService(t *testing.T, answer string) *otherService {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &otherService{l: l, answer: answer}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return s
}

func (s *otherService) serve(c net.Conn) {
	defer c.Close()
	first := make([]byte, 1024)
	n, _ := c.Read(first)
	_, _ = io.WriteString(c, s.answer)
	_ = c.(*net.TCPConn).CloseWrite()
	rest, _ := io.ReadAll(c) // until the other side ends it
	got := string(first[:n]) + string(rest)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, got)
}

// got returns what each connection was sent.
func (s *otherService) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// TestBadTickets: what get says of a ticket that leads nowhere or is none: what happened and what to do. It
// writes nothing, tells nobody else, and never repeats the ticket, which is a secret.
func TestBadTickets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	id, err := peer.Decode("12D3KooWA5geUFjtNendjSP4BWTMNHMHPUGr3q7bqSASZafV9hX7")
	if err != nil {
		t.Fatal(err)
	}
	encode := func(change func(*ticket.Ticket)) string {
		k := ticket.Ticket{Root: b3.Root{1, 2, 3}, Size: 100, Peer: id, Name: "note.txt"}
		k.Addrs = []ma.Multiaddr{ma.StringCast("/ip4/127.0.0.1/tcp/1")}
		change(&k)
		text, err := k.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	at := func(s *otherService) string {
		return encode(func(k *ticket.Ticket) {
			_, port, _ := net.SplitHostPort(s.l.Addr().String())
			k.Addrs = []ma.Multiaddr{ma.StringCast("/ip4/127.0.0.1/tcp/" + port)}
		})
	}
	web := newOtherService(t, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
	mail := newOtherService(t, "220 mail.example ESMTP\r\n")
	good := encode(func(*ticket.Ticket) {})
	const again = "run the same command again, or ask for a new ticket"
	for name, c := range map[string]struct {
		text string
		exit int
		want []string
	}{
		"truncated":      {good[:60], 2, []string{"cut short or mistyped", "Copy the whole ticket again"}},
		"wrong checksum": {good[:80] + good[81:] + "q", 2, []string{"checksum is wrong", "Copy the whole"}},
		"mixed case": {good[:30] + strings.ToUpper(good[30:]), 2,
			[]string{"upper-case and lower", "as it was sent"}},
		"too long":     {good + strings.Repeat("q", 1000), 2, []string{"more than 1000 characters", "Copy it again"}},
		"words before": {"here it is: " + good, 2, []string{"words before it", "Copy the ticket alone"}},
		"words after":  {good + "\nsee you", 2, []string{"Copy it again, and nothing around it"}},
		"a path":       {bashrc, 2, []string{"the name is a path", "Ask for a new one"}},
		"expired": {encode(func(k *ticket.Ticket) { k.NotAfter = time.Unix(1_700_000_000, 0) }), 4,
			[]string{"expired at 2023-11-14", "Ask for a new one"}},
		"private network": {encode(func(k *ticket.Ticket) { k.Network = ticket.Network{1} }), 77,
			[]string{"the private network 0100000000000000", "Set node.swarm_key"}},
		"no address": {encode(func(k *ticket.Ticket) { k.Addrs = nil }), 69,
			[]string{"can be dialled", "ask for a ticket"}},
		"another local network": {encode(func(k *ticket.Ticket) {
			k.Addrs = []ma.Multiaddr{ma.StringCast("/ip4/10.254.253.1/tcp/4901")}
		}), 69, []string{"it works for this local network", "Join that network"}},
		"nobody":        {good, 69, []string{"127.0.0.1/tcp/1: connection refused", again}},
		"a web server":  {at(web), 69, []string{"do not understand each other", again}},
		"a mail server": {at(mail), 69, []string{"do not understand each other", again}},
		// Broken into lines and put in quotes, a ticket is understood.
		"pasted": {"\"" + good[:50] + "\n" + good[50:] + "\"\n", 69, []string{"127.0.0.1/tcp/1: connection refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			work := filepath.Join(dir, name)
			if err := os.Mkdir(work, 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("allium", "--home", filepath.Join(dir, "none"), "get", "-")
			cmd.Dir, cmd.Stdin = work, strings.NewReader(c.text)
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			_ = cmd.Run() // the exit code says it
			if got := cmd.ProcessState.ExitCode(); got != c.exit {
				t.Errorf("exit code %d, want %d", got, c.exit)
			}
			for _, w := range c.want {
				if !strings.Contains(said.String(), w) {
					t.Errorf("%q is not in: %s", w, said.String())
				}
			}
			if strings.Contains(said.String(), "allium1") || strings.Count(said.String(), "\n") != 1 {
				t.Errorf("it repeats the ticket, or has more than a line: %s", said.String())
			}
			left, err := os.ReadDir(work)
			if err != nil || len(left) > 0 {
				t.Errorf("there is %v, %v", left, err)
			}
		})
	}
	t.Cleanup(func() { // after the cases
		for _, s := range []*otherService{web, mail} {
			got := s.got()
			for _, sent := range got {
				if sent != "\x13/multistream/1.0.0\n\x0b/tls/1.0.0\n" && sent != "\x13/multistream/1.0.0\n" {
					t.Errorf("another service was sent %q", sent)
				}
			}
			if len(got) == 0 {
				t.Error("another service was not dialled")
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
			t.Error("there is a home directory")
		}
	})
}
