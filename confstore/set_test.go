package confstore

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/snapshot"
	"confcenter/internal/memory"
)

// The rows of cppcloud.md 3.4 and the items of section 9 that belong to a store,
// with what this store does about each.

func TestSetNewOrNewerReplacesAndIsPushed(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `{"v":1}`})
	for i, mtime := range []int32{1000, 2000, 2000} { // equal is accepted
		was := m.mtime("a.json")
		r, err := m.setAt("a.json", fmt.Sprintf(`{"v":"set %d"}`, i), mtime)
		require.NoError(t, err)
		require.Greater(t, r.Mtime, was)
		require.GreaterOrEqual(t, r.Mtime, mtime)
		require.Equal(t, r.Mtime, m.mtime("a.json"), "the reply carries the version served")
		require.Equal(t, mtime, m.Snapshot().Node("a.json").GivenMtime())
		b := m.next()
		require.Equal(t, []string{"a.json"}, names(b))
		require.True(t, b.Changes[0].Own)
	}
}

// Section 9 item 6.
func TestSetOlderIsRefusedCompletely(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `{"v":1}`})
	r, err := m.setAt("a.json", `{"v":2}`, 999)
	require.ErrorIs(t, err, codes.Older)
	require.EqualValues(t, 1000, r.Mtime, "the stored one")
	require.Equal(t, `{"v":1}`, m.file("a.json"))
	m.none()
	r, err = m.setAt("a.json", "", 999)
	require.ErrorIs(t, err, codes.Older, "a delete too")
	require.EqualValues(t, 1000, r.Mtime)
	m.none()
	m.reopen()
	require.Equal(t, `{"v":1}`, m.text("a"))
}

func TestOlderMeansOlderThanGivenNotThanRaised(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `{"v":1}`})
	for i := range 5 {
		_, err := m.setAt("a.json", fmt.Sprintf(`{"v":"set %d"}`, i), 1000)
		require.NoError(t, err)
	}
	require.EqualValues(t, 1005, m.mtime("a.json"))
	r, err := m.setAt("a.json", `{"v":"again"}`, 1001)
	require.NoError(t, err)
	require.EqualValues(t, 1006, r.Mtime)
}

// Section 9 item 7.
func TestChangesWithinASecondGetDifferentMtimes(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`})
	first := m.mustSet("a.json", `2`).Mtime
	require.EqualValues(t, noon.Unix(), first)
	require.Equal(t, first+1, m.mustSet("a.json", `3`).Mtime)
	m.edit("a.json", `4`, noon.Unix())
	require.Equal(t, first+2, m.mtime("a.json"))
}

// Section 9 item 8.
func TestStoredMtimeInTheFutureDoesNotSwallowUpdates(t *testing.T) {
	m := newMemKit(t, nil)
	future := int32(noon.Unix() + 10_000)
	_, err := m.setAt("a.json", `1`, future)
	require.NoError(t, err)
	require.Equal(t, future+1, m.mustSet("a.json", `2`).Mtime)
	require.Equal(t, "2", m.text("a"))
	r, err := m.set(SetRequest{Name: "a.json"})
	require.NoError(t, err)
	require.Equal(t, future+2, r.Mtime)
	require.True(t, r.Deleted)
}

// Section 9 item 9.
func TestMtimesAndDeletesSurviveARestart(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`, "b.json": `1`})
	_, err := m.setAt("a.json", `2`, 5000)
	require.NoError(t, err)
	r, err := m.set(SetRequest{Name: "b.json"})
	require.NoError(t, err)
	epoch := m.Epoch()
	seq := m.Snapshot().Seq()
	m.reopen()
	require.Equal(t, epoch, m.Epoch())
	require.GreaterOrEqual(t, m.Snapshot().Seq(), seq)
	require.EqualValues(t, 5000, m.mtime("a.json"))
	require.Equal(t, r.Mtime, m.mtime("b.json"))
	require.True(t, m.Snapshot().Node("b.json").Deleted())
	require.Equal(t, `{"a.json":[1,5000],"b.json":[0,1700000000]}`, string(m.Snapshot().NameList()))
}

func TestGivenMtimeIsTheFilesTime(t *testing.T) {
	k := newKit(t, nil)
	_, err := k.set(SetRequest{Name: "a.json", Contents: []byte("1"), Mtime: 12345, HasMtime: true})
	require.NoError(t, err)
	r := k.directory.read("a.json", false)
	require.EqualValues(t, 12345, r.mtime)
}

// Section 9 item 10.
func TestScalarsAreStoredWhole(t *testing.T) {
	m := newMemKit(t, nil)
	for _, text := range []string{`"text"`, `12.50`, `true`, `[]`, `{}`, `18446744073709551617`, `"\u0000é/<>&"`} {
		m.mustSet("a.json", text)
		require.Equal(t, text+"\n", m.file("a.json"))
		require.Equal(t, text, m.text("a"), "number and string text is data")
		m.reopen()
		require.Equal(t, text, m.text("a"))
	}
}

func TestAbsentOrNullContentsDelete(t *testing.T) {
	for name, contents := range map[string][]byte{"absent": nil, "null": []byte(" null ")} {
		t.Run(name, func(t *testing.T) {
			m := newMemKit(t, map[string]string{"a.json": `{"v":1}`})
			r, err := m.set(SetRequest{Name: "a.json", Contents: contents})
			require.NoError(t, err)
			require.True(t, r.Deleted)
			require.EqualValues(t, noon.Unix(), r.Mtime)
			n := m.next().Changes[0].Node
			require.True(t, n.Deleted() && n.Known())
			require.Equal(t, "{}", m.text("a"))
			_, err = m.mem.Get(m.path("a.json"))
			require.Error(t, err)
			require.Equal(t, []string{"a.json"}, m.Snapshot().Names())
		})
	}
}

func TestDeleteOfAnUnknownFileDoesNothing(t *testing.T) {
	m := newMemKit(t, nil)
	r, err := m.setAt("a.json", "", 77)
	require.NoError(t, err)
	require.Equal(t, SetResult{Mtime: 77, Deleted: true}, r)
	m.none()
	require.Nil(t, m.Snapshot().Node("a.json"))
}

func TestDeleteTwiceIsOneChange(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`})
	first, err := m.set(SetRequest{Name: "a.json"})
	require.NoError(t, err)
	m.next()
	second, err := m.set(SetRequest{Name: "a.json"})
	require.NoError(t, err)
	require.Equal(t, first, second)
	m.none()
}

func TestRecreateOlderThanTheDeleteIsRefused(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`})
	deleted, err := m.setAt("a.json", "", 3000)
	require.NoError(t, err)
	r, err := m.setAt("a.json", `2`, 2000)
	require.ErrorIs(t, err, codes.Older)
	require.Equal(t, deleted.Mtime, r.Mtime)
	require.True(t, m.Snapshot().Node("a.json").Deleted())
	r, err = m.setAt("a.json", `2`, 3000)
	require.NoError(t, err)
	require.EqualValues(t, 3001, r.Mtime)
}

func TestSameContentsAreNoChange(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `{"v":1}`})
	r := m.mustSet("a.json", "{ \"v\": 1 }")
	require.EqualValues(t, 1000, r.Mtime)
	r, err := m.setAt("a.json", `{"v":1}`, 2000)
	require.NoError(t, err)
	require.EqualValues(t, 2000, r.Mtime)
	require.Equal(t, r.Mtime, m.mtime("a.json"), "the reply is true")
	m.none()
	_, err = m.setAt("a.json", `{"v":2}`, 1500)
	require.ErrorIs(t, err, codes.Older, "2000 was given")
	m.reopen()
	require.EqualValues(t, 2000, m.mtime("a.json"))
}

func TestIfMtimeMakesAWriteConditional(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`})
	when := func(name, text string, mtime int32) (SetResult, error) {
		req := SetRequest{Name: name, IfMtime: mtime, HasIfMtime: true}
		if text != "" {
			req.Contents = []byte(text)
		}
		return m.set(req)
	}
	r, err := when("a.json", `2`, 999)
	require.ErrorIs(t, err, codes.Conflict)
	require.EqualValues(t, 1000, r.Mtime)
	_, err = when("a.json", `2`, 0)
	require.ErrorIs(t, err, codes.Conflict)
	m.none()
	r, err = when("a.json", `2`, 1000)
	require.NoError(t, err)
	_, err = when("b.json", `1`, 5)
	require.ErrorIs(t, err, codes.Conflict)
	_, err = when("b.json", `1`, 0)
	require.NoError(t, err)
	_, err = when("a.json", ``, r.Mtime)
	require.NoError(t, err)
	_, err = when("a.json", `3`, 0)
	require.NoError(t, err, "a deleted document is none")
}

func TestEditNobodyHasSeenIsTakenInFirst(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`, "b.json": `1`})
	m.write("a.json", `"edited"`, 2000)
	r, err := m.setAt("a.json", `"set"`, 1500)
	require.ErrorIs(t, err, codes.Older)
	require.EqualValues(t, 2000, r.Mtime)
	b := m.next()
	require.Equal(t, `"edited"`, textOf(b.Changes[0].Node, false), "published as a batch of its own")

	m.write("a.json", `"edited again"`, 2500)
	r, err = m.setAt("a.json", `"set"`, 3000)
	require.NoError(t, err)
	require.Equal(t, `"edited again"`, textOf(m.next().Changes[0].Node, false))
	require.Equal(t, `"set"`, textOf(m.next().Changes[0].Node, false))
	require.Equal(t, "\"set\"", m.file("a.json"))

	require.NoError(t, m.mem.Drop(m.path("b.json")))
	_, err = m.set(SetRequest{Name: "b.json", Contents: []byte("2"), IfMtime: 1000, HasIfMtime: true})
	require.ErrorIs(t, err, codes.Conflict, "removed meanwhile")
	require.True(t, m.next().Changes[0].Node.Deleted())
}

func TestSetHealsABrokenFile(t *testing.T) {
	for name, text := range map[string]string{"with new contents": `2`, "with the same contents": `1`} {
		t.Run(name, func(t *testing.T) {
			m := newMemKit(t, map[string]string{"a.json": `1`})
			m.edit("a.json", `{`, 2000)
			require.Len(t, m.Problems(), 1)
			m.mustSet("a.json", text)
			require.Equal(t, text+"\n", m.file("a.json"))
			require.Empty(t, m.Problems())
			require.Empty(t, m.Snapshot().Node("a.json").Broken())
			m.reopen()
			require.Equal(t, text, m.text("a"))
			require.Empty(t, m.Problems())
		})
	}
}

// Section 9 items 11 and 13, and the row "directory missing / name is a directory
// / name too long".
func TestNamesThatCannotBeWritten(t *testing.T) {
	m := newMemKit(t, map[string]string{"dir/a.json": `1`, "file.json": `1`})
	m.mem.MakeDir("/srv/conf/x.json")
	for _, name := range []string{
		"", "../x.json", "/etc/x.json", "a/../x.json", "./a.json", "a//b.json", "a/.hidden.json", ".git/a.json", "a\\b.json",
		"a\x00.json", "a\nb.json", "plain.txt", ".json", "a.json/", strings.Repeat("x", 256) + ".json",
		strings.Repeat("x/", 600) + ".json", "\xff.json", "x.json", "file.json/y.json",
	} {
		_, err := m.set(SetRequest{Name: name, Contents: []byte("1")})
		require.ErrorIs(t, err, codes.BadName, "%q", name)
	}
	m.none()
	_, err := m.set(SetRequest{Name: "new/deep/er.json", Contents: []byte("1")})
	require.NoError(t, err, "directories that are missing are made")
	require.Equal(t, []string{"dir/a.json", "file.json", "new/deep/er.json"}, m.Snapshot().Names())
}

func TestMtimesBeyondTheLimitAreRefused(t *testing.T) {
	m := newMemKit(t, nil)
	_, err := m.setAt("a.json", `1`, math.MaxInt32)
	require.ErrorIs(t, err, codes.BadRequest)
	m.edit("b.json", `1`, math.MaxInt32)
	require.EqualValues(t, noon.Unix(), m.mtime("b.json"), "a file from the future counts as now")
	m.edit("c.json", `1`, -5)
	require.EqualValues(t, noon.Unix(), m.mtime("c.json"), "a file from before 1970 too")
	_, err = m.setAt("d.json", `1`, -5)
	require.NoError(t, err)
	require.EqualValues(t, 1, m.mtime("d.json"), "0 would mean that there is none")
	r, err := m.setAt("e.json", `1`, 0)
	require.NoError(t, err)
	require.EqualValues(t, noon.Unix(), r.Mtime, "0 is none given")

	// In the last years that there are mtimes for.
	m.clock.Advance(time.Unix(math.MaxInt32-1<<24+1, 0).Sub(noon))
	_, err = m.setAt("a.json", `1`, math.MaxInt32-1<<24+2)
	require.ErrorIs(t, err, codes.BadRequest)
	_, err = m.setAt("a.json", `1`, math.MaxInt32-1<<24+1)
	require.NoError(t, err)
	require.EqualValues(t, math.MaxInt32-1<<24+2, m.mustSet("a.json", `2`).Mtime)
}

func TestContentsThatAreNoJSONAreRefused(t *testing.T) {
	m := newMemKit(t, nil)
	for _, text := range []string{"", "{", "{} {}", "// c", "\ufeff1", "NaN", strings.Repeat("[", 1000) + strings.Repeat("]", 1000)} {
		_, err := m.set(SetRequest{Name: "a.json", Contents: []byte(text)})
		require.ErrorIs(t, err, codes.BadJSON, "%.20q", text)
	}
	_, err := m.set(SetRequest{Name: "_meta.json", Contents: []byte("[1]")})
	require.ErrorIs(t, err, codes.BadRequest)
	m.none()
}

func TestDeepLongContentsAreNotBlownUp(t *testing.T) {
	m := newMemKit(t, nil)
	text := strings.Repeat("[", 500) + strings.Repeat("1,", 50_000) + "1" + strings.Repeat("]", 500)
	m.mustSet("a.json", text)
	require.Equal(t, text+"\n", m.file("a.json"), "indented it would be 100 MB")
	m.drainedNone()
}

func TestFullQueueIsBusyAndBytesAreBounded(t *testing.T) {
	m := newMemKit(t, nil)
	m.cfg.QueueLength, m.cfg.Queues = 2, memory.NewPool(2*memory.WaiterCost+10)
	m.reopen()
	entered, leave := make(chan struct{}), make(chan struct{})
	answered := make(chan error, 10)
	done := func(_ SetResult, err error) { answered <- err }
	require.NoError(t, m.Set(SetRequest{Name: "a.json"}, func(SetResult, error) { close(entered); <-leave }))
	<-entered
	require.NoError(t, m.Set(SetRequest{Name: "a.json", Contents: []byte("12345678")}, done))
	require.ErrorIs(t, m.Set(SetRequest{Name: "a.json", Contents: []byte("123")}, done), codes.Busy)
	require.NoError(t, m.Set(SetRequest{Name: "a.json", Contents: []byte("12")}, done))
	require.ErrorIs(t, m.Set(SetRequest{Name: "a.json", Contents: nil}, done), codes.Busy)
	close(leave)
	require.NoError(t, <-answered)
	require.NoError(t, <-answered)
	_, err := m.set(SetRequest{Name: "a.json", Contents: make([]byte, 1000)})
	require.ErrorIs(t, err, codes.TooLarge, "waiting would not help")
	require.Zero(t, m.cfg.Queues.Held())
}

func TestCloseAnswersWhatWaits(t *testing.T) {
	m := newMemKit(t, nil)
	entered, leave := make(chan struct{}), make(chan struct{})
	answered := make(chan error, 10)
	require.NoError(t, m.Set(SetRequest{Name: "a.json"}, func(SetResult, error) { close(entered); <-leave }))
	<-entered
	require.NoError(t, m.Set(SetRequest{Name: "a.json", Contents: []byte("1")}, func(_ SetResult, err error) { answered <- err }))
	closed := make(chan error)
	go func() { closed <- m.Close() }()
	<-m.closing
	close(leave)
	require.NoError(t, <-closed)
	if err := <-answered; err != nil { // it may have been taken first
		require.ErrorIs(t, err, codes.Closed)
	}
	require.ErrorIs(t, m.Set(SetRequest{Name: "a.json"}, func(SetResult, error) {}), codes.Closed)
	m.Reload() // returns
}

func TestWriterIsAnsweredAfterSubscribersAndTheSnapshot(t *testing.T) {
	m := newMemKit(t, nil)
	var order []string
	m.Subscribe(func(b *snapshot.Batch) {
		if b.Snapshot == m.Snapshot() {
			order = append(order, "told")
		}
	})
	done := make(chan struct{})
	require.NoError(t, m.Set(SetRequest{Name: "a.json", Contents: []byte("1")}, func(SetResult, error) {
		order = append(order, "answered")
		close(done)
	}))
	<-done
	require.Equal(t, []string{"told", "answered"}, order)
}

// The caller may use the memory of the contents again once the write is done. What the log has of
// them is read much later.
func TestContentsAreTheWritersAgainWhenItIsDone(t *testing.T) {
	k := newKit(t, nil)
	want := map[string]string{}
	for _, exact := range []bool{false, true} {
		for _, size := range []int{10, 5 << 10, 600 << 10} {
			name := fmt.Sprintf("%d-%t.json", size, exact)
			want[name] = fmt.Sprintf(`{"n":%d,"text":%q}`, size, strings.Repeat("x", size))
			contents := []byte(want[name])
			_, err := k.set(SetRequest{Name: name, Contents: contents, Exact: exact})
			require.NoError(t, err)
			clear(contents)
		}
	}
	for range 2 {
		for name, text := range want {
			served, _ := k.Snapshot().Node(name).Contents(false)
			require.True(t, text == string(served), name)
			v, err := k.writer.log.Version(t.Context(), name, 1)
			require.NoError(t, err)
			file, err := os.ReadFile(k.path(name))
			require.NoError(t, err)
			require.True(t, string(file) == string(v.File), name)
			require.True(t, strings.Contains(name, "false") || text == string(file), name)
		}
		k.reopen()
	}
}
