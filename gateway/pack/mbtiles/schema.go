package mbtiles

import (
	"context"
	"encoding/binary"
	"strings"

	"zombiezen.com/go/sqlite"

	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// The header of a database.
const (
	magic      = "SQLite format 3\x00"
	headerSize = 100
)

// checkHeader refuses what is not a whole SQLite database, before SQLite sees it.
func checkHeader(ctx context.Context, src tile.Source) error {
	size := src.Size()
	if size == 0 {
		return status.Errorf(status.Corrupt, "the pack is empty")
	}
	var h [headerSize]byte
	if size < headerSize {
		return status.Errorf(status.Corrupt, "the pack is no SQLite database: it has %d bytes", size)
	}
	if err := src.ReadAt(ctx, h[:], 0); err != nil {
		return err
	}
	if !IsDatabase(h[:]) {
		return status.Errorf(status.Corrupt, "the pack is no SQLite database, or is encrypted")
	}
	page := int64(binary.BigEndian.Uint16(h[16:]))
	if page == 1 {
		page = 64 << 10
	}
	if page < 512 || page&(page-1) != 0 {
		return status.Errorf(status.Corrupt, "the pack is damaged: a page has %d bytes", page)
	}
	pages := int64(binary.BigEndian.Uint32(h[28:]))
	current := string(h[24:28]) == string(h[92:96]) // older versions of SQLite do not write the number of pages
	if current && pages*page > size {
		return status.Errorf(status.Corrupt, "the pack is cut off: it has %d bytes of %d. Fetch or copy it again", size,
			pages*page)
	}
	return nil
}

// schema is the tables and views of a pack.
type schema struct {
	tables map[string]bool   // the names of tables and views, in lower case
	plain  []string          // the names of tables
	views  map[string]string // the statements of views, by name in lower case
}

const schemaSQL = "SELECT type, name, rootpage, sql FROM sqlite_schema"

// readSchema returns the names of the tables and views of the pack, in lower case. It refuses those that
// are dangerous to read: virtual tables run code of their own, generated columns call functions that
// the authorizer does not see, and views of views take memory before the authorizer sees them.
func (c *conn) readSchema(ctx context.Context) (map[string]bool, error) {
	s := schema{tables: map[string]bool{}, views: map[string]string{}}
	objects := 0
	err := c.query(ctx, schemaBudget, "cannot read the tables of the pack", schemaSQL, nil,
		func(row *sqlite.Stmt) (bool, error) {
			if objects++; objects > maxObjects {
				return false, status.Errorf(status.Unsupported, "the pack has more than %d tables and indexes",
					maxObjects)
			}
			return true, s.add(row.ColumnText(0), row.ColumnText(1), row.ColumnInt64(2), row.ColumnText(3))
		})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"tiles", "metadata"} {
		if !s.tables[name] {
			return nil, status.Errorf(status.Corrupt, "the database has no table or view %q, so it is no MBTiles pack",
				name)
		}
		if err := s.checkView(name); err != nil {
			return nil, err
		}
	}
	return s.tables, c.refuseGenerated(ctx, s.plain)
}

// add adds a row of the schema.
func (s *schema) add(kind, name string, rootPage int64, sql string) error {
	lower := strings.ToLower(name)
	switch kind {
	case "view":
		s.tables[lower], s.views[lower] = true, sql
	case "table":
		if rootPage == 0 {
			return status.Errorf(status.Unsupported, "the pack has a virtual table, %s. Drop it", shown(name))
		}
		s.tables[lower], s.plain = true, append(s.plain, name)
	}
	return nil
}

// checkView refuses a view that reads other views, or has a WITH or several subqueries: each level may
// name the one before it many times, and SQLite copies it each time while it compiles a query. The text
// is not parsed, so a view that only mentions such a name is refused, too.
func (s *schema) checkView(name string) error {
	sql, ok := s.views[name]
	if !ok {
		return nil
	}
	refuse := func(why string) error {
		return status.Errorf(status.Unsupported, "the view %s %s. Make it a table, or a view of one SELECT of tables",
			name, why)
	}
	if len(sql) > maxView {
		return refuse("is too long")
	}
	sql = strings.ToLower(sql)
	words, selects := map[string]bool{}, 0
	for word := range strings.FieldsFuncSeq(sql, notOfWord) {
		words[word] = true
		if word == "select" {
			selects++
		}
	}
	switch {
	case words["with"]:
		return refuse("has a WITH")
	case selects > maxSelects:
		return refuse("has several SELECTs")
	}
	for other := range s.views {
		odd := strings.ContainsFunc(other, notOfWord) // it may be quoted, and written in several ways
		if other != name && (odd || words[other]) {
			return refuse("may read another view, " + shown(other))
		}
	}
	return nil
}

// notOfWord reports whether a character ends a name that is not quoted, in lower case.
func notOfWord(r rune) bool {
	return r != '_' && r != '$' && (r < 'a' || r > 'z') && (r < '0' || r > '9') && r < 0x80
}

// refuseGenerated refuses tables with generated columns.
func (c *conn) refuseGenerated(ctx context.Context, tables []string) error {
	c.auth.pragma = "table_xinfo"
	defer func() { c.auth.pragma = "" }()
	for _, name := range tables {
		quoted := `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		err := c.query(ctx, schemaBudget, "cannot read the columns of the pack", "PRAGMA table_xinfo("+quoted+")", nil,
			func(row *sqlite.Stmt) (bool, error) {
				if row.GetInt64("hidden") != 0 {
					return false, status.Errorf(status.Unsupported,
						"the table %s of the pack has a generated column, %s. Drop it", shown(name),
						shown(row.GetText("name")))
				}
				return true, nil
			})
		if err != nil {
			return err
		}
	}
	return nil
}
