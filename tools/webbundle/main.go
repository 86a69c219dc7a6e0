// Command webbundle writes the files that pages load: scripts with everything that they import, in JavaScript or
// TypeScript, and other files as they are. Each is compressed with gzip. The same sources give the same bytes.
//
// Usage: webbundle -modules node_modules -out assets main.js=script/main.ts licence.txt=node_modules/x/LICENSE
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/klauspost/compress/gzip"
)

func main() {
	modules := flag.String("modules", "", "the `directory` node_modules with what scripts import")
	out := flag.String("out", "", "the `directory` for what is written")
	flag.Parse()
	for _, arg := range flag.Args() {
		if err := run(*modules, *out, arg); err != nil {
			fmt.Fprintln(os.Stderr, "webbundle:", err)
			os.Exit(1)
		}
	}
}

// run writes one compressed file to the directory out. A name that ends in .js is that of a script, and one that ends
// in .mjs that of a module.
func run(modules, out, arg string) error {
	name, source, ok := strings.Cut(arg, "=")
	if !ok {
		return fmt.Errorf("%q is not NAME=FILE", arg)
	}
	var content []byte
	var err error
	switch filepath.Ext(name) {
	case ".js":
		content, err = bundle(source, modules, true)
	case ".mjs":
		content, err = bundle(source, modules, false)
	default:
		content, err = os.ReadFile(source)
	}
	if err != nil {
		return err
	}
	packed, err := compress(content)
	if err != nil {
		return fmt.Errorf("compress %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(out, name+".gz"), packed, 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: %d bytes, %d compressed\n", name, len(content), len(packed))
	return nil
}

// bundle returns a script with everything that it imports: minified for a page, or else as a module that people read.
func bundle(script, modules string, page bool) ([]byte, error) {
	script, err := filepath.Abs(script)
	if err != nil {
		return nil, err
	}
	if modules, err = filepath.Abs(modules); err != nil {
		return nil, err
	}
	format := api.FormatESModule
	if page {
		format = api.FormatIIFE
	}
	result := api.Build(api.BuildOptions{
		EntryPoints: []string{script}, NodePaths: []string{modules}, Bundle: true, Format: format,
		Target: api.ES2020, Charset: api.CharsetUTF8, LegalComments: api.LegalCommentsInline, Sourcemap: api.SourceMapNone,
		MinifyWhitespace: page, MinifyIdentifiers: page, MinifySyntax: page,
		JSX: api.JSXAutomatic, JSXImportSource: "preact",
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
