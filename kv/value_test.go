package kv_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"confcenter/codes"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func value(t kv.Type, text string) kv.Value { return kv.Value{Type: t, Data: []byte(text)} }

func TestValuesThatFit(t *testing.T) {
	for _, v := range []kv.Value{
		value(kv.String, ""), value(kv.String, "grüße"), value(kv.String, "a\x00b"),
		value(kv.Int, "0"), value(kv.Int, "-0"), value(kv.Int, "+7"), value(kv.Int, "007"),
		value(kv.Int, "9223372036854775807"), value(kv.Int, "-9223372036854775808"),
		value(kv.Bool, "true"), value(kv.Bool, "false"),
		value(kv.Bytes, ""), value(kv.Bytes, "\x00\xff"),
		value(kv.JSON, "null"), value(kv.JSON, " [1, 1.50] "), value(kv.JSON, `{"a":1,"a":2}`),
		value(kv.Bytes, strings.Repeat("x", kv.MaxValue)),
	} {
		require.NoError(t, v.Check(), "%s %.40q", v.Type, v.Data)
	}
}

func TestValuesThatDoNotFit(t *testing.T) {
	cases := []struct {
		v    kv.Value
		code codes.Code
		says string
	}{
		{value(0, "x"), codes.BadType, "type 0"},
		{value(8, "x"), codes.BadType, "type 8"},
		{value(kv.String, "\xff"), codes.BadValue, "UTF-8"},
		{value(kv.Int, ""), codes.BadValue, "not of type int"},
		{value(kv.Int, "1.0"), codes.BadValue, `"1.0"`},
		{value(kv.Int, " 1"), codes.BadValue, `" 1"`},
		{value(kv.Int, "0x10"), codes.BadValue, "int"},
		{value(kv.Int, "1_000"), codes.BadValue, "int"},
		{value(kv.Int, "9223372036854775808"), codes.BadValue, "range"},
		{value(kv.Double, ""), codes.BadValue, "double"},
		{value(kv.Double, "1,5"), codes.BadValue, "double"},
		{value(kv.Double, "1_0.5"), codes.BadValue, "double"},
		{value(kv.Double, "1e999"), codes.BadValue, "range"},
		{value(kv.Double, "1.5x"), codes.BadValue, "double"},
		{value(kv.Double, "--nan"), codes.BadValue, "double"},
		{value(kv.Double, "nan("), codes.BadValue, "double"},
		{value(kv.Double, "nan(a b)"), codes.BadValue, "double"},
		{value(kv.Double, "nano"), codes.BadValue, "double"},
		{value(kv.Double, "n"), codes.BadValue, "double"},
		{value(kv.Bool, "True"), codes.BadValue, "bool"},
		{value(kv.Bool, "1"), codes.BadValue, "bool"},
		{value(kv.JSON, ""), codes.BadValue, "JSON"},
		{value(kv.JSON, "{} x"), codes.BadValue, "JSON"},
		{value(kv.JSON, "{\"a\":\"\xff\"}"), codes.BadValue, "offset 6 is not UTF-8"},
		{value(kv.JSON, strings.Repeat("[", kv.MaxDepth+1)+strings.Repeat("]", kv.MaxDepth+1)), codes.BadValue, "deeper than 500"},
		{value(kv.Bytes, strings.Repeat("x", kv.MaxValue+1)), codes.TooLarge, strconv.Itoa(kv.MaxValue)},
	}
	for _, c := range cases {
		err := c.v.Check()
		require.Equal(t, c.code, codes.Of(err), "%s %.40q: %v", c.v.Type, c.v.Data, err)
		require.Contains(t, err.Error(), c.says)
		require.Less(t, len(err.Error()), 200, "a value is not shown whole")
	}
}

// What C's printf prints for doubles, by format; of infinity and nan what the C
// standard leaves to libraries.
func TestDoublesAsCPrintsThem(t *testing.T) {
	cases := map[string]float64{
		"0.000000": 0, "-0.000000": math.Copysign(0, -1), "1.500000": 1.5, "123456789.000000": 123456789, // %f
		"1.500000e+00": 1.5, "1.797693e+308": 1.797693e308, "4.940656e-324": 5e-324, "-2.5E-10": -2.5e-10, // %e, %E
		"0.1": 0.1, "1e+06": 1e6, "1e-05": 1e-5, "100000": 100000, "0.10000000000000001": 0.1, // %g, %.17g
		"3.": 3, "+1.5": 1.5, // %#.0f, %+g
		"0x1.8p+0": 1.5, "0x1p-3": 0.125, "-0X1.8P+1": -3, // %a, %A
		"inf": math.Inf(1), "-inf": math.Inf(-1), "INF": math.Inf(1), "+inf": math.Inf(1), "infinity": math.Inf(1),
	}
	for text, want := range cases {
		got, err := value(kv.Double, text).Double()
		require.NoError(t, err, text)
		require.Equal(t, math.Float64bits(want), math.Float64bits(got), text)
		require.NoError(t, value(kv.Double, text).Check(), text)
	}
	for _, text := range []string{"nan", "-nan", "+nan", "NAN", "-NAN", "+NAN", "NaN", "nan(ind)", "-nan(ind)", "nan(snan)", "-NAN(IND)", "nan(0x8000000000000)", "nan()"} {
		got, err := value(kv.Double, text).Double()
		require.NoError(t, err, text)
		require.True(t, math.IsNaN(got), text)
	}
}

func TestEveryDoubleFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		for _, v := range []kv.Value{kv.DoubleValue(f), value(kv.Double, fmt.Sprintf("%.17g", f)), value(kv.Double, fmt.Sprintf("%x", f)), value(kv.Double, fmt.Sprintf("%f", f))} {
			require.NoError(t, v.Check(), "%s", v.Data)
			got, err := v.Double()
			require.NoError(t, err)
			if v.Data[0] != '0' && !math.IsNaN(f) && math.Abs(f) > 1 {
				require.InEpsilon(t, f, got, 1e-6)
			}
		}
		got, err := kv.DoubleValue(f).Double()
		require.NoError(t, err)
		if !math.IsNaN(f) {
			require.Equal(t, math.Float64bits(f), math.Float64bits(got), "the shortest text reads back")
		}
	})
}

func TestMadeValuesFitAndReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64().Draw(t, "n")
		got, err := kv.IntValue(n).Int()
		require.NoError(t, err)
		require.Equal(t, n, got)
		b := rapid.Bool().Draw(t, "b")
		gotBool, err := kv.BoolValue(b).Bool()
		require.NoError(t, err)
		require.Equal(t, b, gotBool)
		s := rapid.String().Draw(t, "s")
		require.NoError(t, kv.StringValue(s).Check())
		require.Equal(t, s, string(kv.StringValue(s).Data))
	})
	require.NoError(t, kv.BytesValue([]byte{0xff}).Check())
	require.NoError(t, value(kv.Removed, "\xff").Check())
	require.NoError(t, kv.JSONValue([]byte(`{}`)).Check())
	require.Error(t, kv.JSONValue([]byte(`{`)).Check())
}

func TestReadingAsAnotherTypeIsRefused(t *testing.T) {
	_, err := kv.StringValue("1").Int()
	require.Equal(t, codes.WrongType, codes.Of(err))
	_, err = kv.DoubleValue(1).Int()
	require.Equal(t, codes.WrongType, codes.Of(err))
	_, err = kv.StringValue("1").Double()
	require.Equal(t, codes.WrongType, codes.Of(err))
	_, err = kv.StringValue("true").Bool()
	require.Equal(t, codes.WrongType, codes.Of(err))
	f, err := kv.IntValue(3).Double()
	require.NoError(t, err)
	require.Equal(t, 3.0, f, "an int can be read as a double")
}

func TestValuesAreEqualByTypeAndText(t *testing.T) {
	require.True(t, kv.IntValue(1).Equal(value(kv.Int, "1")))
	require.False(t, kv.IntValue(1).Equal(value(kv.Int, "+1")))
	require.False(t, kv.IntValue(1).Equal(value(kv.Double, "1")))
	require.True(t, value(kv.Bytes, "").Equal(kv.Value{Type: kv.Bytes}))
}

func TestTypesHaveNames(t *testing.T) {
	for _, typ := range []kv.Type{kv.String, kv.Int, kv.Double, kv.Bool, kv.Bytes, kv.JSON, kv.Removed} {
		got, err := kv.ParseType(typ.String())
		require.NoError(t, err)
		require.Equal(t, typ, got)
	}
	for _, name := range []string{"", "text", "INT", "type 0"} {
		_, err := kv.ParseType(name)
		require.Equal(t, codes.BadType, codes.Of(err), name)
	}
	require.Equal(t, "type 99", kv.Type(99).String())
}

func FuzzValueCheck(f *testing.F) {
	for _, text := range []string{"1", "-nan", "0x1p-2", "true", `{"a":[1]}`, "\xff", "9223372036854775808"} {
		for typ := range 9 {
			f.Add(uint8(typ), []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, typ uint8, data []byte) {
		v := kv.Value{Type: kv.Type(typ), Data: data}
		if v.Check() != nil {
			return
		}
		var err error
		switch v.Type {
		case kv.Int:
			_, err = v.Int()
		case kv.Double:
			_, err = v.Double()
		case kv.Bool:
			_, err = v.Bool()
		}
		require.NoError(t, err, "what is accepted can be read")
	})
}
