package follow

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"allium/internal/privatefile"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

const (
	// maxLedger bounds the file of a ledger. A longer one counts as damaged.
	maxLedger = 512 << 20
	// maxLedgerLine bounds one line of it: a path, or a link, of 4 KiB, each byte escaped.
	maxLedgerLine = 64 << 10
	// maxRecords is the maximum number of records of one path: of what was there, and of what updates that
	// were killed were about to write. Then an update looks which of them is there, and forgets the others.
	maxRecords = 4
)

// ledgerFormat is the first thing in the file.
const ledgerFormat = "allium follow 1"

// record describes the file, the link or the directory that an update left at a path, or was about to.
type record struct {
	Kind   manifest.EntryKind `json:"kind"`
	Root   b3.Root            `json:"root,omitzero"`    // of a file
	Size   int64              `json:"size,omitempty"`   // of a file
	Target string             `json:"target,omitempty"` // of a link
	// Stamp is the state of the file in which it had that content; empty: it must be read.
	Stamp string `json:"stamp,omitempty"`
	// Own says that an update wrote it. Otherwise it was there already.
	Own bool `json:"own,omitempty"`
}

// same reports whether both have the same content.
func (r record) same(o record) bool {
	return r.Kind == o.Kind && r.Root == o.Root && r.Size == o.Size && r.Target == o.Target
}

// records are those of each path, the latest last.
type records map[string][]record

// add adds a record of a path, or completes the one with the same content.
func (rs records) add(path string, r record) {
	all := rs[path]
	if i := slices.IndexFunc(all, r.same); i >= 0 {
		r.Own, r.Stamp = r.Own || all[i].Own, cmp.Or(r.Stamp, all[i].Stamp)
		all[i] = r
		return
	}
	if len(all) >= maxRecords {
		all = all[1:]
	}
	rs[path] = append(slices.Clip(all), r)
}

// equal reports whether both say the same.
func (rs records) equal(o records) bool { return maps.EqualFunc(rs, o, slices.Equal[[]record]) }

type ledgerHead struct {
	Format string `json:"format"`
	Dir    string `json:"dir"`
}

type ledgerLine struct {
	Path string `json:"path"`
	record
}

type ledgerEnd struct {
	Sum string `json:"b3"` // of all lines before it
}

// ledgerFile returns the name of the ledger of a directory. Both are absolute.
func ledgerFile(ledgers, dir string) string {
	return filepath.Join(ledgers, b3.Sum([]byte(dir)).Hex()[:32]+".ledger")
}

// save writes the ledger of a directory. It is durable then, and after a crash it is the old or the new
// one. With an empty file name it writes none.
func (rs records) save(file, dir string) error {
	if file == "" {
		return nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(ledgerHead{ledgerFormat, dir})
	for path, all := range rs {
		for _, r := range all {
			err = errors.Join(err, enc.Encode(ledgerLine{path, r}))
		}
	}
	if err == nil {
		err = enc.Encode(ledgerEnd{b3.Sum(b.Bytes()).Hex()})
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = privatefile.Replace(file, b.Bytes())
	}
	if err != nil {
		return fmt.Errorf("note what is written: %w", err)
	}
	return nil
}

// load reads the ledger of a directory. Its error says why there is none; the records are empty then. No
// file is no error, and no file name neither.
func load(file, dir string) (records, error) {
	if file == "" {
		return records{}, nil
	}
	p, err := privatefile.Read(file, maxLedger, privatefile.NoWrites)
	if errors.Is(err, fs.ErrNotExist) {
		return records{}, nil
	}
	if err != nil {
		return records{}, err
	}
	rs, err := parse(p, dir)
	if err != nil {
		return records{}, status.Errorf(status.Corrupt, "%s is damaged: %w", file, err)
	}
	return rs, nil
}

// errLedger says that the text of a ledger is not what save wrote.
var errLedger = errors.New("it is not what was written")

// parse reads the text of a ledger.
func parse(p []byte, dir string) (records, error) {
	body := bytes.TrimSuffix(p, []byte("\n"))
	last := bytes.LastIndexByte(body, '\n') + 1
	var end ledgerEnd
	if json.Unmarshal(body[last:], &end) != nil || end.Sum != b3.Sum(body[:last]).Hex() {
		return nil, errLedger
	}
	sc := bufio.NewScanner(bytes.NewReader(body[:last]))
	sc.Buffer(nil, maxLedgerLine)
	var head ledgerHead
	if !sc.Scan() || json.Unmarshal(sc.Bytes(), &head) != nil || head.Format != ledgerFormat || head.Dir != dir {
		return nil, errLedger
	}
	rs := records{}
	for sc.Scan() {
		var l ledgerLine
		if json.Unmarshal(sc.Bytes(), &l) != nil {
			return nil, errLedger
		}
		rs.add(l.Path, l.record)
	}
	return rs, sc.Err()
}
