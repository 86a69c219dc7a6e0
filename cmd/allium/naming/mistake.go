package naming

import (
	"io"
	"os"

	"allium/gateway/site"
)

// siteMistake says what is wrong with the rules of a website in a directory; it is empty if nothing is. Files that
// cannot be read are no mistake, because the command that adds them tells of those.
func siteMistake(dir string) string {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer func() { _ = root.Close() }()
	var rules site.Rules
	for _, name := range site.RuleFiles {
		text, err := readRules(root, name)
		if err != nil {
			continue
		}
		if err := rules.Read(name, text); err != nil {
			return err.Error()
		}
	}
	return ""
}

// readRules returns the beginning of a file, one byte more than it may have.
func readRules(root *os.Root, name string) ([]byte, error) {
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return nil, os.ErrNotExist // links are added as links, and are no rules
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, site.MaxFile+1))
}

// mistake tells of Mistake in a line.
func (w webPlaces) mistake() string {
	if w.Mistake == "" {
		return ""
	}
	return "\nwebsite     " + w.Mistake
}
