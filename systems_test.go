package allium

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestOtherSystems type-checks what the binary consists of for systems on which no test runs: a file for macOS that
// nobody compiles is soon broken. 32-bit ARM finds what takes an int for 64 bits.
func TestOtherSystems(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("type-checks some 1,000 packages for each system")
	}
	for _, system := range []string{"darwin/arm64", "freebsd/amd64", "linux/arm"} {
		t.Run(system, func(t *testing.T) {
			goos, goarch, _ := strings.Cut(system, "/")
			cfg := &packages.Config{
				Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps |
					packages.NeedTypes | packages.NeedSyntax, // of the dependencies as well: so nothing is compiled
				Env: append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
			}
			loaded, err := packages.Load(cfg, "./cmd/...", "./gateway/...", "./internal/...", "./node/...",
				"./protocols/...", "./resolver/...", "./store/...", "./testnet/...")
			if err != nil {
				t.Fatal(err)
			}
			if len(loaded) < 100 {
				t.Errorf("only %d packages were found", len(loaded))
			}
			for _, p := range loaded {
				for _, err := range p.Errors {
					t.Error(err)
				}
			}
		})
	}
}
