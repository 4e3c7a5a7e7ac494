//go:build !race || soak

package confstore

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

func TestManyFilesOfACommitAreSignedAtOnce(t *testing.T) {
	k := newWorkTree(t)
	k.put("first.json", `{}`)
	first := k.commit("first")
	var want []string
	for i := range 3000 {
		want = append(want, fmt.Sprintf("d%d/%d.json", i%50, i))
		k.put(want[i], `{"i":`+strconv.Itoa(i)+`}`)
	}
	hash := k.commit("many")
	k.git("checkout", "--quiet", first)
	k.cfg.DiskPatience = time.Hour // a busy machine may be slow, and then they are in the log later
	k.open()
	k.git("checkout", "--quiet", hash)
	k.all(want...)
	for _, name := range want {
		k.becomes(name, byAda(hash, "many"))
	}
}
