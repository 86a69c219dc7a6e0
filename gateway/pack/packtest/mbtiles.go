package packtest

import (
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// WriteMBTiles writes PNG tiles as an MBTiles database.
func WriteMBTiles(name string, tiles Tiles) (err error) {
	conn, err := sqlite.OpenConn(name)
	if err != nil {
		return err
	}
	defer func() {
		if closed := conn.Close(); err == nil {
			err = closed
		}
	}()
	if err := sqlitex.ExecuteScript(conn, `CREATE TABLE metadata (name TEXT, value TEXT);
INSERT INTO metadata VALUES ('format', 'png');
CREATE TABLE tiles (zoom_level INTEGER, tile_column INTEGER, tile_row INTEGER, tile_data BLOB);
CREATE UNIQUE INDEX tile_index ON tiles (zoom_level, tile_column, tile_row);`, nil); err != nil {
		return err
	}
	defer sqlitex.Transaction(conn)(&err)
	for c, p := range tiles {
		row := int64(1)<<c.Z - 1 - int64(c.Y)
		if err := sqlitex.Execute(conn, "INSERT INTO tiles VALUES (?, ?, ?, ?)",
			&sqlitex.ExecOptions{Args: []any{int64(c.Z), int64(c.X), row, p}}); err != nil {
			return err
		}
	}
	return nil
}
