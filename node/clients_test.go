package node_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"allium/gateway/policy/capabilities"
	"allium/internal/testkit"
	"allium/protocols/capability"
)

// TestGeneratedClients runs the block of docs/programs.md that generates clients from the OpenAPI document of a node,
// with the tools of tools/clients in place of those from the Internet, which `make bin/tools/clients` installs. It
// compiles the clients, and has each add, get and pin bytes of many sizes on the node.
func TestGeneratedClients(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles clients")
	}
	t.Parallel()
	tools := clientTools(t)
	home := t.TempDir()
	token := mintForAnHour(t, home)
	n := startAt(t, home, nil)
	args := []string{n.ID().Gateway, n.ID().Admin, token, "7"}

	dir := copyOf(t, filepath.Join(tools, "src"), filepath.Join(tools, "tsconfig.json"),
		filepath.Join(tools, "package.json"), filepath.Join(tools, "go"))
	for link, to := range map[string]string{
		"node_modules": filepath.Join(tools, "node_modules"), "go/openapi.json": "../openapi.json",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	const oapi = "go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
	script := strings.NewReplacer(
		"http://127.0.0.1:9600", n.ID().Admin, "npx openapi-typescript ", "node_modules/.bin/openapi-typescript ",
		"npx @hey-api/openapi-ts ", "node_modules/.bin/openapi-ts ", oapi, "go -C go tool oapi-codegen",
	).Replace(guideOfPrograms(t, "check=machine"))
	if strings.Contains(script, "npx") || strings.Contains(script, "go run") {
		t.Fatalf("the block needs the Internet:\n%s", script)
	}
	command(t, dir, "bash", "-euc", script)
	for from, to := range map[string]string{
		"node.d.ts": "src/generated/schema.d.ts", "hey": "src/generated/hey", "go/node.go": "go/node/node.go",
	} {
		to = filepath.Join(dir, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, from), to); err != nil {
			t.Fatal(err)
		}
	}

	command(t, dir, "node_modules/.bin/tsc", "-p", ".")
	command(t, dir, "go", "-C", "go", "build", "-o", "client", ".")
	for _, client := range [][]string{{"node", "out/fetch.js"}, {"node", "out/hey.js"}, {"go/client"}} {
		if out := command(t, dir, client[0], append(client[1:], args...)...); out != "ok 16\n" {
			t.Errorf("%s: %s", client, out)
		}
	}
}

// clientTools returns the directory of the generators. The test is skipped where they are not installed; CI installs
// them.
func clientTools(t *testing.T) string {
	t.Helper()
	tools, err := filepath.Abs("../tools/clients")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(tools, "node_modules")); err != nil {
		const why = "the generators of clients are not installed: whether the OpenAPI document makes good clients is not " +
			"tested here; run `make bin/tools/clients`"
		testkit.Missing(t, why)
	}
	return tools
}

// guideOfPrograms returns a block of docs/programs.md.
func guideOfPrograms(t *testing.T, kind string) string {
	t.Helper()
	guide, err := os.ReadFile("../docs/programs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "```sh "+kind+"\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatalf("docs/programs.md has no block %q", kind)
	}
	return text
}

// TestImportedClients runs the block of docs/programs.md with which a foreign module imports the Go clients.
func TestImportedClients(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles clients")
	}
	t.Parallel()
	checkout, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} { // "go mod tidy" would fetch what no build of the checkout needs
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(text, []byte("module allium\n"), []byte("module example.org/app\n"), 1)
		write(t, filepath.Join(dir, name), text)
	}
	write(t, filepath.Join(dir, "main.go"), []byte(stranger))
	edit, _, _ := strings.Cut(strings.ReplaceAll(guideOfPrograms(t, "check=build"), "=../allium", "="+checkout), "\n")
	command(t, dir, "bash", "-euc", edit)
	command(t, dir, "env", "GOPROXY=off", "go", "build", "-o", "app", ".")
	n := start(t, nil)
	root := add(t, n, filepath.Join(dir, "main.go"))[0].Root.String()
	if out := command(t, dir, filepath.Join(dir, "app"), n.ID().Admin, n.ID().Gateway,
		root); out != stranger+"1 pin\n" {
		t.Errorf("%s", out)
	}
}

// stranger is a program of another module. It prints an object that it proves, and how many pins the node has.
const stranger = `package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/gateway/verified"
	"allium/protocols/b3"
)

func main() {
	ctx := context.Background()
	root, err := b3.Parse(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	gateway, err := verified.New(os.Args[2], verified.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer gateway.Close()
	var content *verified.Download
	if content, err = gateway.Get(ctx, root, b3.Range{End: -1}); err != nil {
		log.Fatal(err)
	}
	if _, err := io.Copy(os.Stdout, content); err != nil {
		log.Fatal(err)
	}
	node, err := client.New(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	var pins []api.Pin
	for pin, err := range node.Pins(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		pins = append(pins, pin)
	}
	fmt.Println(len(pins), "pin")
}
`

// mintForAnHour returns a capability of the node at home to put and pin.
func mintForAnHour(t *testing.T, home string) string {
	t.Helper()
	return mint(t, home, time.Now().Add(time.Hour), "op in put,pin")
}

// mint returns a capability of the node at home with caveats.
func mint(t *testing.T, home string, until time.Time, texts ...string) string {
	t.Helper()
	var caveats []capability.Caveat
	for _, text := range append(texts, "exp < "+until.UTC().Format(time.RFC3339)) {
		c, err := capability.ParseCaveat(text)
		if err != nil {
			t.Fatal(err)
		}
		caveats = append(caveats, c)
	}
	token, err := capabilities.Open(home).Mint(t.Context(), caveats...)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// copyOf copies files and directories into a new directory.
func copyOf(t *testing.T, paths ...string) string {
	t.Helper()
	to := t.TempDir()
	for _, path := range paths {
		err := filepath.WalkDir(path, func(from string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(filepath.Dir(path), from)
			if err != nil {
				return err
			}
			p, err := os.ReadFile(from)
			if err == nil {
				write(t, filepath.Join(to, name), p)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// write writes a file and makes the directories above it.
func write(t testing.TB, path string, p []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, p, 0o600); err != nil {
		t.Fatal(err)
	}
}

// command runs a program in dir, outside of this module's workspace, and returns what it prints.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-trimpath -mod=mod", "GOWORK=off", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
