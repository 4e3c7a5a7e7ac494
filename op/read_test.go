package op_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/op"
)

// colour is an enumeration, as models have them.
type colour int

func (c *colour) UnmarshalText(text []byte) error {
	if string(text) != "RED" {
		return errors.New("it is RED")
	}
	*c = 1
	return nil
}

func (c colour) MarshalText() ([]byte, error) { return []byte("RED"), nil }

// anything is JSON that the model does not look into.
type anything []byte

func (a *anything) UnmarshalJSON(raw []byte) error {
	*a = append((*a)[:0], raw...)
	return nil
}

func (a anything) MarshalJSON() ([]byte, error) {
	if a == nil {
		return []byte("null"), nil
	}
	return a, nil
}

type base struct {
	Token string `json:"token,omitempty" doc:"names the request"`
}

type everyForm struct {
	base
	Name    string            `json:"name" doc:"who" arg:"1"`
	By      int64             `json:"by,omitempty" doc:"how many"`
	Small   int32             `json:"small,omitempty"`
	Share   float64           `json:"share,omitempty"`
	On      bool              `json:"on,omitempty"`
	Names   []string          `json:"names,omitempty" arg:"2"`
	Labels  map[string]string `json:"labels,omitempty"`
	Colour  colour            `json:"colour,omitempty"`
	Raw     anything          `json:"raw,omitempty"`
	Inner   *everyForm        `json:"inner,omitempty"`
	Inners  []everyForm       `json:"inners,omitempty"`
	hidden  int
	Ignored int `json:"-"`
}

type echo struct{ said *everyForm }

func (e *echo) say(_ context.Context, _ *access.Actor, q *everyForm) (*everyForm, error) {
	e.said = q
	return q, nil
}

func (e *echo) fill(_ context.Context, _ *access.Actor, q *everyForm) (*everyForm, error) {
	return &everyForm{Name: strings.Repeat("x", int(q.By))}, nil
}

var echoes = []op.Operation{
	op.Define("say", access.KVWrite, "POST say", "says it again", (*echo).say),
	op.Define("fill", access.KVRead, "GET fill", "answers at length", (*echo).fill),
}

func TestQuestionsAreReadByTheirStructs(t *testing.T) {
	got, err := echoes[0].Read([]byte(`{"name":"\u0041nn","by":-9007199254740993,"share":0.5,"on":true,"names":["a","b"],"labels":{"x":"y"},"colour":"RED",
		"raw": {"any": [1,2]},"inner":{"name":"below","inner":null},"inners":[{"name":"1"},{}],"token":"t","small":null}`), nil)
	require.NoError(t, err)
	require.Equal(t, &everyForm{
		base: base{"t"}, Name: "Ann", By: -9007199254740993, Share: 0.5, On: true, Names: []string{"a", "b"}, Labels: map[string]string{"x": "y"}, Colour: 1,
		Raw: anything(`{"any": [1,2]}`), Inner: &everyForm{Name: "below"}, Inners: []everyForm{{Name: "1"}, {}},
	}, got)
}

func TestAQuestionThatDoesNotFitIsRefusedByName(t *testing.T) {
	for object, want := range map[string]string{
		`{"nam":"x"}`:                            `member "nam" is not known here`,
		`{"Name":"x"}`:                           `member "Name" is not known here`,
		`{"hidden":1}`:                           `member "hidden" is not known here`,
		`{"-":1}`:                                `member "-" is not known here`,
		`{"name":"x","n\u0061me":"y"}`:           `member "name" is there twice`,
		`{"name":1}`:                             `member "name" must be a string`,
		`{"by":"1"}`:                             `member "by" must be a whole number`,
		`{"by":1.5}`:                             `member "by" is 1.5, which is not a whole number of 64 bits`,
		`{"small":2147483648}`:                   `member "small" is 2147483648, which is not a whole number of 32 bits`,
		`{"on":1}`:                               `member "on" must be true or false`,
		`{"names":"a"}`:                          `member "names" must be an array`,
		`{"names":["a",1]}`:                      `member "names[1]" must be a string`,
		`{"labels":{"a":"b","a":"c"}}`:           `member "labels.a" is there twice`,
		`{"labels":{"a":1}}`:                     `member "labels.a" must be a string`,
		`{"colour":"BLUE"}`:                      `member "colour": it is RED`,
		`{"colour":1}`:                           `member "colour" must be a string`,
		`{"inners":[{},{"inner":{"what":1}}]}`:   `member "inners[1].inner.what" is not known here`,
		`{"inner":[]}`:                           `member "inner" must be an object`,
		"{\"name\":\"\xff\"}":                    `member "name" is not UTF-8`,
		`{"share":"0.5"}`:                        `member "share" must be a number`,
		`{"labels":[]}`:                          `member "labels" must be an object`,
		`{"raw":1,"inners":{}}`:                  `member "inners" must be an array`,
		`{"token":"a","inner":{"token":[null]}}`: `member "inner.token" must be a string`,
	} {
		_, err := echoes[0].Read([]byte(object), nil)
		require.Equal(t, codes.BadRequest, codes.Of(err), object)
		require.Equal(t, want, codes.Message(err), object)
	}
}

// 0 is not "as usual": what is left out is.
func TestATimeToLiveOfNothingIsRefused(t *testing.T) {
	type ask struct {
		TTL int64 `json:"ttl,omitempty" doc:"ms"`
	}
	ttl := op.MembersOf(reflect.TypeFor[ask]())[0]
	for _, text := range []string{"0", "-0"} {
		require.ErrorIs(t, ttl.Set(new(ask), text), codes.BadTTL, text)
	}
	require.NoError(t, ttl.Set(new(ask), "1"))
	op := op.Define("live", access.KVWrite, "POST live", "lives", func(_ *echo, _ context.Context, _ *access.Actor, q *ask) (*ask, error) { return q, nil })
	_, err := op.Read([]byte(`{"ttl":0}`), nil)
	require.ErrorIs(t, err, codes.BadTTL)
	_, err = op.Read([]byte(`{"ttl":null}`), nil)
	require.NoError(t, err)
}

// A few bytes of JSON must not become very many of memory before the caller has agreed.
func TestReadingAsksForRoomBeforeItTakesIt(t *testing.T) {
	var most, asked int64
	room := func(n int64) error {
		if asked += n; asked > most {
			return codes.Errorf(codes.Busy, "there is no room")
		}
		return nil
	}
	for _, object := range []string{
		`{"inners":[` + strings.Repeat("{},", 99_999) + `{}]}`,
		`{"name":"` + strings.Repeat("x", 1<<20) + `"}`,
		`{"raw":"` + strings.Repeat("x", 1<<20) + `"}`,
		`{"names":[` + strings.Repeat(`"",`, 99_999) + `""]}`,
	} {
		asked, most = 0, 1<<16
		_, err := echoes[0].Read([]byte(object), room)
		require.Equal(t, codes.Busy, codes.Of(err))
		asked, most = 0, 1<<40
		_, err = echoes[0].Read([]byte(object), room)
		require.NoError(t, err)
		require.GreaterOrEqual(t, asked, int64(1<<20))
	}
}

func TestMembersAreSetByWords(t *testing.T) {
	q := echoes[0].Ask()
	for _, word := range []struct{ name, text string }{
		{"name", `"An" n`}, {"by", "-5"}, {"on", "true"}, {"names", "a,b"}, {"names", "c"}, {"labels", `{"x":"y"}`}, {"colour", "RED"}, {"raw", "[1]"}, {"token", "t"},
	} {
		require.NoError(t, set(q, word.name, word.text), word)
	}
	require.Equal(t, &everyForm{base: base{"t"}, Name: `"An" n`, By: -5, On: true, Names: []string{"a,b", "c"}, Labels: map[string]string{"x": "y"}, Colour: 1, Raw: anything("[1]")}, q)
	for _, word := range []struct{ name, text, want string }{
		{"by", "x", `by must be a whole number, not "x"`}, {"by", "1.5", `member "by" is 1.5, which is not a whole number of 64 bits`},
		{"on", "yes", `on must be true or false, not "yes"`}, {"colour", "BLUE", `member "colour": it is RED`}, {"labels", "{", `labels must be an object, not "{"`},
	} {
		require.EqualError(t, set(q, word.name, word.text), word.want)
	}
}

func set(q any, name, text string) error {
	for _, m := range op.MembersOf(reflect.TypeOf(q).Elem()) {
		if m.Name == name {
			return m.Set(q, text)
		}
	}
	panic(name)
}

func TestMembersSayWhatTheyAre(t *testing.T) {
	var names []string
	for _, m := range op.MembersOf(reflect.TypeFor[everyForm]()) {
		names = append(names, m.Name+" "+m.Form.String())
	}
	require.Equal(t, []string{
		"token a string", "name a string", "by a whole number", "small a whole number", "share a number", "on true or false", "names an array", "labels an object",
		"colour a string", "raw any JSON", "inner an object", "inners an array",
	}, names)
	first := op.MembersOf(reflect.TypeFor[everyForm]())[:2]
	require.True(t, first[0].Optional)
	require.Equal(t, "names the request", first[0].Doc)
	require.Equal(t, 1, first[1].Arg)
	require.False(t, first[1].Optional)
}

func TestAnswersAreJSONOfABoundedLength(t *testing.T) {
	m := op.Model{Name: "echo", Operations: echoes, Asked: &echo{}}
	got, err := m.Answer(t.Context(), &echoes[0], nil, &everyForm{Name: "<&>\n", Raw: anything(`{"a":1}`)})
	require.NoError(t, err)
	require.Equal(t, `{"name":"<&>\n","raw":{"a":1}}`, string(got))
	require.True(t, echoes[0].Writes())
	require.False(t, echoes[1].Writes())

	_, err = m.Answer(t.Context(), &echoes[1], nil, &everyForm{By: op.MaxAnswer})
	require.Equal(t, codes.TooLarge, codes.Of(err))
	require.ErrorContains(t, err, "ask for less at a time")
	_, err = m.Answer(t.Context(), &echoes[0], nil, &everyForm{Name: strings.Repeat("x", op.MaxAnswer)})
	require.ErrorContains(t, err, "it was done")
}
