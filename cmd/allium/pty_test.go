package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/gateway/api/client"
)

// openTerminal returns both ends of a pseudo-terminal that has so many columns.
func openTerminal(t *testing.T, columns uint16) (screen, terminal *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	fd := int(screen.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	return screen, terminal
}

// drawn returns the states of the last line of a terminal, and fails if one is wider than the terminal
// or the last one is not empty.
func drawn(t *testing.T, columns int, written string) []string {
	t.Helper()
	states := strings.Split(written, "\r\x1b[K")[1:]
	for _, s := range states {
		if n := term.Cells(s); n >= columns || strings.ContainsAny(s, "\r\n") {
			t.Errorf("a line of %d columns is drawn in a terminal of %d: %q", n, columns, s)
		}
	}
	if len(states) == 0 || states[len(states)-1] != "" {
		t.Errorf("at %d columns the terminal ends with %q", columns, written)
	}
	return states
}

// TestProgressInTerminal fetches a large file and a directory from a node that sends slowly.
func TestProgressInTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home := filepath.Join(dir, "A")
	const size = 3 << 20
	if err := os.MkdirAll(filepath.Join(dir, "photos"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]int{"big.bin": size, "photos/one": size / 3, "photos/two": size / 3 * 2} {
		if err := os.WriteFile(filepath.Join(dir, name),
			bytes.Repeat([]byte(name[len(name)-3:]), n/3), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	startNode(t, home)
	socket, err := api.SocketPath(home)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.SetFaults(t.Context(), api.Faults{Rate: size / 2}); err != nil { // bytes/s: longer than a second
		t.Fatal(err)
	}
	for _, name := range []string{"big.bin", "photos"} {
		share := exec.Command("allium", "--home", home, "share", name)
		share.Dir = dir
		ticket, err := share.Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, columns := range []int{40, 120} {
			t.Run(fmt.Sprintf("%s at %d", name, columns), func(t *testing.T) {
				t.Parallel()
				at := filepath.Join(dir, fmt.Sprint(name, columns))
				if err := os.Mkdir(at, 0o755); err != nil {
					t.Fatal(err)
				}
				written, said := getInTerminal(t, columns, at, string(bytes.TrimSpace(ticket)))
				states := strings.Join(drawn(t, columns, written), "\n")
				want := `MiB/3 MiB  .*/s  \d+s`
				if columns == 120 {
					want = `fetching ` + name + `  \[#*\.*\]  \d+ %  .* of 3 MiB  .*/s  \d+s left`
				}
				if !regexp.MustCompile(want).MatchString(states) {
					t.Errorf("no line that matches %s is among\n%s", want, states)
				}
				want = `^b3:[0-9a-f]{64} ` + name + `: 3 MiB in [\d.]+s \(.*/s\), direct (tcp|quic)\n$`
				if !regexp.MustCompile(want).MatchString(said) {
					t.Errorf("the closing line is %q", said)
				}
			})
		}
	}
}

// getInTerminal runs allium get TICKET in dir with a terminal as standard error.
func getInTerminal(t *testing.T, columns int, dir, ticket string) (written, said string) {
	t.Helper()
	screen, terminal := openTerminal(t, uint16(columns))
	get := exec.Command("allium", "--home", filepath.Join(dir, "none"), "get", ticket)
	get.Dir, get.Stderr = dir, terminal
	get.Env = append(os.Environ(), "ALLIUM_NODE__PROFILE=testnet")
	var out bytes.Buffer
	get.Stdout = &out
	if err := get.Start(); err != nil {
		t.Fatal(err)
	}
	_ = terminal.Close() // the command has it
	var all bytes.Buffer
	_, _ = io.Copy(&all, screen) // ends with EIO when the command has ended
	if err := get.Wait(); err != nil {
		t.Fatalf("%v: %s", err, all.String())
	}
	return all.String(), out.String()
}
