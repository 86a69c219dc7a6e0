package mbtiles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"zombiezen.com/go/sqlite"

	"allium/gateway/pack/tile"
)

// metadata has the values of the table metadata.
type metadata struct {
	values   map[string]string // by name, each within its bound
	problems []string          // sentences about values that were ignored
	format   string

	hasZooms         bool
	minZoom, maxZoom uint8
}

// metadataSQL reads the rows that are served. It reads only the length of a value that is too long, and nothing for a
// name that is too long. octet_length counts two bytes a character in UTF-16.
const metadataSQL = `SELECT name, octet_length(value), CASE WHEN octet_length(value) <=
	CASE name WHEN 'json' THEN ?1 ELSE ?2 END THEN value END FROM metadata
WHERE CASE WHEN octet_length(name) <= 32 THEN name IN ('name', 'format', 'bounds', 'center', 'minzoom', 'maxzoom',
	'attribution', 'description', 'version', 'json') END LIMIT 64`

// readMetadata reads the table metadata. Of rows with the same name the first counts.
func (c *conn) readMetadata(ctx context.Context) (*metadata, error) {
	m := &metadata{values: map[string]string{}}
	err := c.query(ctx, metadataBudget, "cannot read the metadata", metadataSQL, []int64{tile.MaxMetadata, maxText},
		func(row *sqlite.Stmt) (bool, error) {
			name := row.ColumnText(0)
			if _, again := m.values[name]; again {
				return true, nil
			}
			value := row.ColumnText(2)
			switch {
			case row.ColumnInt64(1) > int64(len(value)) && row.ColumnType(2) == sqlite.TypeNull:
				m.ignore(name, "it has "+strconv.FormatInt(row.ColumnInt64(1), 10)+" bytes")
			case !utf8.ValidString(value):
				m.ignore(name, "it is not UTF-8")
			default:
				m.values[name] = value
			}
			return true, nil
		})
	if err != nil {
		return nil, err
	}
	m.format = strings.ToLower(strings.TrimSpace(m.values["format"]))
	minZoom, ok := m.zoom("minzoom")
	maxZoom, also := m.zoom("maxzoom")
	if m.hasZooms = ok && also && minZoom <= maxZoom; m.hasZooms {
		m.minZoom, m.maxZoom = minZoom, maxZoom
	}
	return m, nil
}

// ignore notes why a value does not count.
func (m *metadata) ignore(name, why string) {
	m.problems = append(m.problems, "The metadata's "+name+" is ignored: "+why+".")
}

// fill copies what counts to info.
func (m *metadata) fill(info *tile.Info) {
	info.Name, info.Description = m.values["name"], m.values["description"]
	info.Attribution, info.Version = m.values["attribution"], m.values["version"]
	if b, ok := m.numbers("bounds", 4); ok {
		if lonLat(b[0], b[1]) && lonLat(b[2], b[3]) && b[0] <= b[2] && b[1] <= b[3] {
			info.Bounds = (*[4]float64)(b)
		} else {
			m.ignore("bounds", "west, south, east and north are not degrees in order")
		}
	}
	if c, ok := m.numbers("center", 3); ok {
		if lonLat(c[0], c[1]) && c[2] >= 0 && c[2] <= tile.MaxZoom {
			info.Center = (*[3]float64)(c)
		} else {
			m.ignore("center", "it is no longitude, latitude and zoom")
		}
	}
	if text := m.values["json"]; text != "" {
		layers, err := vectorLayers(text)
		if err != nil {
			m.ignore("json", shown(err.Error()))
		}
		info.VectorLayers = layers
	}
	for _, problem := range m.problems {
		warn(info, "%s", problem)
	}
}

// vectorLayers returns the member vector_layers of a JSON object, nil if it has none.
func vectorLayers(text string) (json.RawMessage, error) {
	if _, err := io.Copy(io.Discard, tile.LimitNesting(strings.NewReader(text))); err != nil {
		return nil, err
	}
	var doc struct {
		Layers json.RawMessage `json:"vector_layers"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil || doc.Layers == nil || string(doc.Layers) == "null" {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(doc.Layers))
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return nil, errors.New("vector_layers is no list")
	}
	for n := 0; d.More(); n++ {
		if n == maxLayers {
			return nil, fmt.Errorf("it has more than %d vector layers", maxLayers)
		}
		var l struct {
			ID string `json:"id"`
		}
		if err := d.Decode(&l); err != nil {
			return nil, err
		}
	}
	var list bytes.Buffer
	err := json.Compact(&list, doc.Layers)
	return list.Bytes(), err
}

// numbers returns a value that is a list of n finite numbers. ok is false for a missing value and others.
func (m *metadata) numbers(name string, n int) (numbers []float64, ok bool) {
	text := m.values[name]
	if text == "" {
		return nil, false
	}
	parts := strings.Split(text, ",")
	if len(parts) != n {
		m.ignore(name, "it is no list of "+strconv.Itoa(n)+" numbers")
		return nil, false
	}
	for _, part := range parts {
		f, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			m.ignore(name, "it is no list of "+strconv.Itoa(n)+" numbers")
			return nil, false
		}
		numbers = append(numbers, f)
	}
	return numbers, true
}

// zoom returns a value that is a zoom.
func (m *metadata) zoom(name string) (uint8, bool) {
	text := strings.TrimSpace(m.values[name])
	if text == "" {
		return 0, false
	}
	z, err := strconv.ParseUint(text, 10, 8)
	if err != nil || z > tile.MaxZoom {
		m.ignore(name, "it is no zoom")
		return 0, false
	}
	return uint8(z), true
}

// parseFormat returns the type that a format row names, also as a media type.
func parseFormat(format string) (tile.Type, bool) {
	for t := tile.MVT; t <= tile.AVIF; t++ {
		if format == t.Media() {
			return t, true
		}
	}
	if format == "application/x-protobuf" {
		return tile.MVT, true
	}
	return tile.ParseExt(format)
}

func lonLat(lon, lat float64) bool { return math.Abs(lon) <= 180 && math.Abs(lat) <= 90 }
