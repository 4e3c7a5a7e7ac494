//go:build soak

package integration

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// A user who edits must see at once, on whatever page, that nothing can be written, and why.
func TestConsoleTellsOfASickDisk(t *testing.T) {
	p := StartProcess(t, sampleConf(t))
	tb := startBrowser(t).open(p, "status", view{})
	tb.sees("#cards", "Config files10all good")
	tb.misses("#troubles .banner")
	require.NoError(t, os.Rename(p.Conf, p.Conf+".away"))
	tb.sees("#troubles .banner.bad", "Configurations cannot be written: the configuration directory is gone")
	tb.sees("#troubles .banner.bad", p.Conf)
	require.NoError(t, os.RemoveAll(p.Data+"/state"))
	tb.sees("#troubles", "The store takes no writes:")
	tb.sees("#troubles", p.Data+"/state")
	tb.click("#nav-store")
	tb.sees("#troubles", "Configurations cannot be written:")
	tb.click("#language")
	tb.sees("#troubles", "配置目录不存在")
	tb.sees("#troubles", "中的文件不见了，请用备份恢复")
	require.NoError(t, os.Rename(p.Conf+".away", p.Conf))
	tb.until(`document.querySelectorAll("#troubles .banner").length === 1`)
	tb.sees("#troubles", "存储不接受写入：")
}
