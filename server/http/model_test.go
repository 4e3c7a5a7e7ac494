package http

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/memory"
	"confcenter/op"
	"confcenter/op/sampletest"
)

func startSample(t testing.TB, change func(*Config)) *kit {
	return start(t, func(cfg *Config, stores *Stores) {
		stores.Models = []op.Model{sampletest.Model(&sampletest.Sample{})}
		if change != nil {
			change(cfg)
		}
	})
}

func TestAnyOperationIsAPath(t *testing.T) {
	k := startSample(t, nil)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/v1/flow/add", `{"name":"a","token":"1"}`, 200, `{"name":"a","n":1}`},
		{"POST", "/v1/flow/add", `{"name":"a","token":"1"}`, 200, `{"name":"a","n":1}`},
		{"POST", "/v1/flow/add", `{"name":"a","by":9,"tags":["x"]}`, 200, `{"name":"a","n":10}`},
		{"GET", "/v1/flow/sums?names=a,b&names=c&deep", "", 200, `{"sums":[{"name":"a,b","n":10},{"name":"c","n":10}],"by":"http"}`},
		{"GET", "/v1/flow/sums?long=&deep=0", "", 200, `{"sums":[],"by":"http"}`},
		{"GET", "/v1/flow/sums?far=0", "", 200, `{"sums":[],"by":"http","far":false}`},
		{"GET", "/v1/flow/sums?far", "", 200, `{"sums":[],"by":"http","far":true}`},
		{"GET", "/v1/flow/sums?far=no", "", 400, `far is \"no\", not 0 or 1`},
		{"POST", "/v1/flow/add", ``, 400, `name is empty: say what is counted`},
		{"POST", "/v1/flow/add", `{"name":"a","name":"a"}`, 400, `member \"name\" is there twice`},
		{"POST", "/v1/flow/add", `{"name":"a","much":1}`, 400, `member \"much\" is not known here`},
		{"POST", "/v1/flow/add", `[]`, 400, `the body is a JSON array, not an object`},
		{"POST", "/v1/flow/add?name=a", `{}`, 400, `this path has no query parameter \"name\"`},
		{"GET", "/v1/flow/sums?long=x", "", 400, `long must be a whole number, not \"x\"`},
		{"GET", "/v1/flow/sums?long=1&long=2", "", 400, `\"long\" is given more than once`},
		{"GET", "/v1/flow/sums?what=1", "", 400, `no query parameter \"what\"`},
		{"GET", "/v1/flow/sums?names=x&long=4194304", "", 413, `ask for less at a time`},
		{"GET", "/v1/flow/add", "", 405, ``},
		{"GET", "/v1/bench/nodes", "", 404, ``},
	} {
		a := k.do(c.method, c.path, c.body)
		require.Equal(t, c.status, a.status, "%s %s: %s", c.method, c.path, a.body)
		if c.status == http.StatusOK {
			require.Equal(t, c.want+"\n", a.body)
			require.Equal(t, "no-store", a.header.Get("Cache-Control"))
		} else {
			require.Contains(t, a.body, c.want)
		}
	}
}

func TestMetricsOfModels(t *testing.T) {
	k := startSample(t, nil)
	require.Equal(t, 200, k.do("POST", "/v1/flow/add", `{"name":"a"}`).status)
	require.Equal(t, 400, k.do("POST", "/v1/flow/add", ``).status)
	require.Equal(t, 413, k.get("/v1/flow/sums?names=x&long=4194304").status)
	seen := scrape(t, k)
	require.Equal(t, map[string]string{`model_writes_total{model="flow"}`: "1"}, seen["confcenter_model_writes_total"].values)
	require.Equal(t, map[string]string{`model_refused_total{code="bad_request",model="flow"}`: "1", `model_refused_total{code="too_large",model="flow"}`: "1", `model_refused_total{code="limit",model="flow"}`: "0"}, seen["confcenter_model_refused_total"].values)
	require.Equal(t, map[string]string{`model_limit_use{limit="sums",model="flow"}`: "1"}, seen["confcenter_model_limit_use"].values)
	require.Equal(t, map[string]string{`model_limit_most{limit="sums",model="flow"}`: "1000"}, seen["confcenter_model_limit_most"].values)
}

// What a question becomes in memory is taken of the pool for requests.
func TestAQuestionThatBecomesTooMuchIsRefused(t *testing.T) {
	k := startSample(t, func(cfg *Config) { cfg.Memory = memory.Divide(memory.Least) })
	pool := k.cfg.Memory.Bodies
	body := `{"tags":[` + strings.Repeat(`"",`, int(pool.Limit()/16)) + `""]}`
	a := k.do("POST", "/v1/flow/add", body)
	require.Equal(t, 503, a.status, a.body)
	require.Contains(t, a.body, "bytes of memory")
}
