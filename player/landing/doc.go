// Package landing writes the fields of package player into tables of MySQL, MariaDB,
// PostgreSQL or SQLite, and reads them from there.
//
// There is a table for each app and region, named as storage.Owner.Table says, with a row for
// each field and the columns of homo's landers: primary_key, logic_type, owner_id, key, value,
// up_version, is_del, del_time, query_all_key, create_time and update_time. Landing makes the
// tables. Keys are compared by their bytes. A row never gives way to one with a smaller
// up_version, which is what keeps a lander that was away for long from doing harm.
//
// A DSN is one of
//
//	mysql://USER:PASSWORD@HOST:PORT/DATABASE?tls=true
//	mysql://USER:PASSWORD@/DATABASE?socket=/run/mysqld/mysqld.sock
//	postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full
//	sqlite:PATH
//
// A program can use those whose packages it imports, as with drivers of database/sql: mysql,
// postgres and sqlite, which are below this one.
//
// [Database] is the database with all its statements; a [Dialect] is what differs between the
// three. [Lander] moves what is dirty from a [Source], which is a storage in this process or a
// server, to a Database.
package landing
