// Command mapbundle writes the files that the page of a pack loads: the library MapLibre GL JS with the page's
// script, the library's worker, and its licence, each compressed with gzip. The same sources give the same bytes.
//
// Usage: mapbundle -modules node_modules -script main.js -out assets
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/klauspost/compress/gzip"
)

func main() {
	modules := flag.String("modules", "", "the `directory` node_modules with maplibre-gl")
	script := flag.String("script", "", "the page's script, a `file`")
	out := flag.String("out", "", "the `directory` for what is written")
	flag.Parse()
	if err := run(*modules, *script, *out); err != nil {
		fmt.Fprintln(os.Stderr, "mapbundle:", err)
		os.Exit(1)
	}
}

// run writes the compressed files to the directory out.
func run(modules, script, out string) error {
	library := filepath.Join(modules, "maplibre-gl")
	viewer, err := bundle(script, modules)
	if err != nil {
		return err
	}
	worker, err := bundle(filepath.Join(library, "dist", "maplibre-gl-csp-worker.js"), modules)
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(library, "LICENSE.txt"))
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"viewer.js": viewer, "worker.js": worker, "maplibre-licence.txt": licence,
	} {
		packed, err := compress(content)
		if err != nil {
			return fmt.Errorf("compress %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(out, name+".gz"), packed, 0o644); err != nil {
			return err
		}
		fmt.Printf("%s: %d bytes, %d compressed\n", name, len(content), len(packed))
	}
	return nil
}

// bundle returns a script with everything that it imports, minified.
func bundle(script, modules string) ([]byte, error) {
	script, err := filepath.Abs(script)
	if err != nil {
		return nil, err
	}
	if modules, err = filepath.Abs(modules); err != nil {
		return nil, err
	}
	result := api.Build(api.BuildOptions{
		EntryPoints: []string{script}, NodePaths: []string{modules}, Bundle: true, Format: api.FormatIIFE,
		Target: api.ES2020, Charset: api.CharsetUTF8, LegalComments: api.LegalCommentsInline, Sourcemap: api.SourceMapNone,
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		// The lookup of tsconfig.json would go up from the sources, to whatever lies above the repository.
		TsconfigRaw: "{}", LogLevel: api.LogLevelSilent,
	})
	for _, m := range result.Errors {
		where := ""
		if m.Location != nil {
			where = fmt.Sprintf("%s:%d: ", m.Location.File, m.Location.Line)
		}
		err = errors.Join(err, fmt.Errorf("%s%s", where, m.Text))
	}
	switch {
	case err != nil:
		return nil, err
	case len(result.OutputFiles) != 1:
		return nil, fmt.Errorf("%s became %d files, not one", script, len(result.OutputFiles))
	}
	return result.OutputFiles[0].Contents, nil
}

// compress returns content as gzip, without a time and a name.
func compress(content []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(content); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
