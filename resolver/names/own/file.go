package own

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"allium/protocols/name"
)

// The directory of the files below a home directory; see [zones.Zones] for the keys there. A file
// is a head, and for each label in byte order a line with the signed envelope in base64.
const (
	dirName = "zones"
	fileExt = ".records"
	head    = "allium-records/1"
)

// fileOf returns the name of the file with the records of a zone.
func fileOf(home string, zone name.Zone) string {
	return filepath.Join(home, dirName, zone.String()+fileExt)
}

// fileZones returns the zones that have a file of records. Files with other names are ignored.
func fileZones(home string) ([]name.Zone, error) {
	files, err := os.ReadDir(filepath.Join(home, dirName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list the records of own zones: %w", err)
	}
	var all []name.Zone
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), fileExt)
		if zone, err := name.ParseZone(id); ok && err == nil && zone.String() == id {
			all = append(all, zone)
		}
	}
	return all, nil
}

// encode returns the text of a file. The records are in the byte order of their labels.
func encode(records []name.Signed) []byte {
	b := bytes.NewBufferString(head + "\n")
	for _, r := range records {
		b.WriteString(base64.StdEncoding.EncodeToString(r.Envelope))
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// decode is the reverse of encode. It verifies each signature, but not whether a record has expired.
func decode(text []byte, zone name.Zone) ([]name.Signed, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	rest, ok := strings.CutPrefix(string(text), head+"\n")
	if !ok {
		return nil, fmt.Errorf("line 1 is not %q", head)
	}
	if rest != "" && !strings.HasSuffix(rest, "\n") {
		return nil, errors.New("its last line is not complete")
	}
	var all []name.Signed
	n := 1
	for line := range strings.Lines(rest) {
		n++
		envelope, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		rec, err := name.Verify(envelope)
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", n, err)
		case rec.Name.Zone != zone:
			return nil, fmt.Errorf("line %d has a record of another zone", n)
		case len(all) >= maxLabels:
			return nil, fmt.Errorf("it has more than %d records", maxLabels)
		case len(all) > 0 && all[len(all)-1].Name.Label.String() >= rec.Name.Label.String():
			return nil, fmt.Errorf("line %d is not in the order of the labels", n)
		}
		all = append(all, rec)
	}
	return all, nil
}
