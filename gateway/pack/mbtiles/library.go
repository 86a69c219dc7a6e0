package mbtiles

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
	"zombiezen.com/go/sqlite"
)

// boundHeap limits the memory that SQLite takes in this process. It has to run before the first use of
// the library, which counts its memory only if it was told to.
var boundHeap = sync.OnceValue(func() error {
	tls := libc.NewTLS()
	defer tls.Close()
	on := libc.NewVaList(int32(1))
	defer libc.Xfree(tls, on)
	if rc := sqlite3.Xsqlite3_config(tls, sqlite3.SQLITE_CONFIG_MEMSTATUS, on); rc != sqlite3.SQLITE_OK {
		return fmt.Errorf("cannot count the memory of SQLite: %s", sqlite.ResultCode(rc))
	}
	if rc := sqlite3.Xsqlite3_initialize(tls); rc != sqlite3.SQLITE_OK {
		return fmt.Errorf("cannot start SQLite: %s", sqlite.ResultCode(rc))
	}
	sqlite3.Xsqlite3_hard_heap_limit64(tls, heapBytes)
	return nil
})

// hooks has the functions that SQLite calls while it compiles and runs queries. Package sqlite has
// no progress handler, its authorizer does not tell the names of functions, and its SetInterrupt loses an
// interrupt that comes right before a query starts. SQLite keeps pointers to the functions, so hooks live
// as long as the connection.
type hooks struct {
	// authorize decides about an action with two arguments: sqlite3_set_authorizer.
	authorize func(tls *libc.TLS, arg uintptr, action int32, first, second, database, accessor uintptr) int32
	// progress ends the query if its result is not 0: sqlite3_progress_handler.
	progress func(tls *libc.TLS, arg uintptr) int32
}

// install makes db call h.
func (h *hooks) install(db *sqlite.Conn) error {
	field := reflect.ValueOf(db).Elem().FieldByName("conn")
	if field.Kind() != reflect.Uintptr || field.Uint() == 0 {
		return errors.New("package sqlite keeps the handle of a connection elsewhere")
	}
	tls := libc.NewTLS()
	defer tls.Close()
	// For package sqlite3, a pointer to a function of C is the word that a variable of the function has in Go.
	handle := uintptr(field.Uint())
	authorize, progress := *(*uintptr)(unsafe.Pointer(&h.authorize)), *(*uintptr)(unsafe.Pointer(&h.progress))
	if rc := sqlite3.Xsqlite3_set_authorizer(tls, handle, authorize, 0); rc != sqlite3.SQLITE_OK {
		return fmt.Errorf("cannot set an authorizer: %s", sqlite.ResultCode(rc))
	}
	sqlite3.Xsqlite3_progress_handler(tls, handle, progressOps, progress, 0)
	return nil
}
