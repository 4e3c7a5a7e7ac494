package mysql_test

import (
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"confcenter/player/landing"
	_ "confcenter/player/landing/mysql"
)

func TestWhatErrorsMean(t *testing.T) {
	p, err := landing.PartsOf("mysql://h/db")
	require.NoError(t, err)
	for want, numbers := range map[landing.Fault][]uint16{
		landing.Unreachable: {1040, 1044, 1045, 1053, 1114, 1142, 1205, 1213, 1290, 1317, 1836, 1927, 1969, 3024},
		landing.Refused:     {1048, 1062, 1153, 1264, 1364, 1366, 1406, 1644, 3819, 4025},
		landing.Absent:      {1146},
	} {
		for _, n := range numbers {
			require.Equal(t, want, p.Dialect.Fault(fmt.Errorf("it says: %w", &mysql.MySQLError{Number: n})), n)
		}
	}
	require.Equal(t, landing.Broken, p.Dialect.Fault(mysql.ErrInvalidConn))
	require.Equal(t, landing.Refused, p.Dialect.Fault(mysql.ErrPktTooLarge))
}
