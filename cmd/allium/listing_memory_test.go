package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"allium/gateway/api"
	"allium/internal/limits"
)

// TestMemoryOfListings: 256 clients from five addresses ask for the worst directories and previews and read nothing of
// them. A node of the profile pi needs no more than 200 MiB for all of them.
func TestMemoryOfListings(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc of Linux to know the memory of a process: the memory of listings is not tested")
	}
	home, dir := filepath.Join(t.TempDir(), "home"), t.TempDir()
	initHome(t, home)
	writeDirectory(t, filepath.Join(dir, "tiny"), shortNames(84_000))
	writeDirectory(t, filepath.Join(dir, "long"), longNames(4_400))
	files := filepath.Join(dir, "files")
	if err := os.Mkdir(files, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, line := range map[string]string{"a.txt": "<<<<<<<<<<<<<<<<\n", "a.md": "* *a* **b** [c](d)\n"} {
		size := map[bool]int{true: 1 << 20, false: 100 << 10}[name == "a.txt"]
		if err := os.WriteFile(filepath.Join(files, name),
			bytes.Repeat([]byte(line), size/len(line)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := func(name string) string {
		root, err := exec.Command("allium", "--home", home, "add", "-q", filepath.Join(dir, name)).Output()
		if err != nil {
			t.Fatal(err)
		}
		return "/b3/" + strings.TrimSpace(string(root)) + "/"
	}
	tiny, long, shown := address("tiny"), address("long"), address("files")
	pages := []string{
		tiny + "?sort=name", tiny + "?format=json", long + "?sort=size&order=desc", tiny + "?sort=kind&view=gallery",
		shown + "a.txt?view=preview", shown + "a.md?view=preview", long + "?format=json",
	}

	node, said := startPi(t, home)
	idle := memoryOf(t, node, "VmRSS")
	var clients sync.WaitGroup
	for host := range 5 {
		clients.Go(func() {
			for i := host; i < 256; i += 5 {
				askAndWait(t, byte(host+1), strings.TrimPrefix(said.Gateway, "http://"), pages[i/5%len(pages)])
			}
		})
	}
	clients.Wait()
	if n := listingsOf(t, said.Admin); n < 200 {
		t.Errorf("%d pages wait for their clients", n)
	}
	if took := memoryOf(t, node, "VmHWM") - idle; took > 200<<20 {
		t.Errorf("they take %d MiB above %d MiB", took>>20, idle>>20)
	} else {
		t.Logf("they take %d MiB above %d MiB", took>>20, idle>>20)
	}
}

// startPi starts a node of the profile pi on loopback alone.
func startPi(t *testing.T, home string) (*exec.Cmd, api.ID) {
	t.Helper()
	cmd := exec.Command("allium", "--home", home, "--json", "run", "--profile", "pi", "--end-with-stdin",
		"--listen", "/ip4/127.0.0.1/tcp/0", "--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "ALLIUM_LISTEN__MDNS=false", "ALLIUM_LISTEN__PORT_MAP=false",
		"ALLIUM_NODE__DRAIN_DEADLINE=1s", "GOMEMLIMIT=")
	n, said := startJSON(t, cmd)
	t.Cleanup(func() { n.stop(t) })
	return cmd, said
}

// askAndWait asks for a page from 127.0.0.host and reads the first line of the answer.
func askAndWait(t *testing.T, host byte, gateway, page string) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}}
	c, err := d.DialContext(t.Context(), "tcp", gateway)
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { c.Close() })
	err = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	if _, e := io.WriteString(c, "GET "+page+" HTTP/1.1\r\nHost: x\r\n\r\n"); err == nil {
		err = e
	}
	line, e := bufio.NewReaderSize(c, 16).ReadString('\n')
	if err = errors.Join(err, e); err != nil || !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		t.Errorf("%s: %q, %v", page, line, err)
	}
}

// listingsOf returns how many pages the gateway sends.
func listingsOf(t *testing.T, admin string) (n int64) {
	t.Helper()
	resp, err := http.Get(admin + "/limits")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var all struct{ Limits []limits.Info }
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all.Limits, func(l limits.Info) bool { return l.Name == "gateway.listings" })
	if i < 0 {
		t.Fatal("there is no gateway.listings")
	}
	return all.Limits[i].Current
}

// memoryOf returns a line of /proc/PID/status in bytes.
func memoryOf(t *testing.T, node *exec.Cmd, line string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", node.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\n"+line+":")
	kib, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// shortNames returns n names of two and three characters.
func shortNames(n int) (names []string) {
	const letters = "!#$%&'()+,-0123456789;=@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`{}~"
	for i := range n {
		a, b, c := i/58/58%58, i/58%58, i%58
		names = append(names, letters[a:a+1]+letters[b:b+1]+letters[c:c+1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func longNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%04d%s", i, strings.Repeat("<", 220)))
	}
	return names
}

// writeDirectory writes the manifest of a directory with a link for each name, as no program of ours makes it: all of
// them are in one node.
func writeDirectory(t *testing.T, file string, names []string) {
	t.Helper()
	type link struct {
		Name   string `cbor:"0,keyasint"`
		Kind   uint8  `cbor:"1,keyasint"`
		Target string `cbor:"5,keyasint"`
	}
	node := struct {
		Kind    uint8  `cbor:"0,keyasint"`
		Entries []link `cbor:"1,keyasint"`
	}{Kind: 1}
	for _, name := range names {
		node.Entries = append(node.Entries, link{name, 2, "x"})
	}
	p, err := cbor.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append([]byte("allium-manifest/1\n"), p...), 0o600); err != nil {
		t.Fatal(err)
	}
}
