package setup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// jinjaSources are llama.cpp's Jinja engine and what it needs, below the tree; all are compiled alike.
var jinjaSources = []string{
	"common/jinja/lexer.cpp", "common/jinja/parser.cpp", "common/jinja/runtime.cpp", "common/jinja/string.cpp",
	"common/jinja/value.cpp", "common/jinja/caps.cpp", "common/json.cpp", "common/unicode.cpp",
}

// jsonLicence is nlohmann/json's, which the engine compiles in.
const jsonLicence = "licenses/LICENSE-jsonhpp"

// jinjaFlags are without asserts: a template must not end the process.
var jinjaFlags = []string{"-O2", "-DNDEBUG", "-std=c++17", "-fPIC", "-w"}

// libjinja builds the engine that renders chat templates, with our limits in it (jinjaEdits).
func libjinja() recipe {
	return recipe{
		name: "libjinja", version: 1,
		inputs: func(ctx context.Context, e *Env) ([]string, error) {
			pkg, _ := e.Manifest.Package(e.Manifest.Native.Llama.Package)
			_, _, id, err := e.compilers(ctx)
			if err != nil {
				return nil, err
			}
			_, headers, err := sourceDigests(e.bindingDir(), ".h")
			in := append([]string{pkg.Sdist.SHA256, e.Manifest.Native.Llama.Tree, id}, jinjaFlags...)
			for _, h := range headers {
				if strings.HasPrefix(h, "jinja_guard.h ") {
					in = append(in, h)
				}
			}
			for _, c := range jinjaEdits() {
				in = append(in, c.file, c.old, c.new)
			}
			return in, err
		},
		build: buildJinja,
	}
}

func buildJinja(ctx context.Context, e *Env, j job) error {
	e.console.printf("llama: compiling llama.cpp's Jinja engine (%d files)", len(jinjaSources))
	src := filepath.Join(j.work, "src")
	if err := e.extractJinja(ctx, src); err != nil {
		return err
	}
	_, cxx, _, err := e.compilers(ctx)
	if err != nil {
		return err
	}
	var objects []string
	for _, name := range jinjaSources {
		object := strings.TrimSuffix(filepath.Base(name), ".cpp") + ".o"
		args := append([]string{"-I", filepath.Join(src, "common"), "-I", filepath.Join(src, "ggml", "include"),
			"-I", filepath.Join(src, "vendor"), "-I", e.bindingDir(), "-c", filepath.Join(src, name), "-o", object}, jinjaFlags...)
		if err := e.run(ctx, j, j.work, nil, cxx, args...); err != nil {
			return err
		}
		objects = append(objects, object)
	}
	headers, err := glob(src, "common/jinja/*.h")
	if err != nil {
		return err
	}
	if err := copyInto(filepath.Join(j.out, "include", "jinja"), headers...); err != nil {
		return err
	}
	if err := copyInto(j.out, filepath.Join(src, filepath.FromSlash(jsonLicence))); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(j.work, "libjinja.a")); err != nil {
		return err
	}
	if err := e.run(ctx, j, j.work, nil, "ar", append([]string{"rcs", "libjinja.a"}, objects...)...); err != nil {
		return err
	}
	return copyInto(filepath.Join(j.out, "lib"), filepath.Join(j.work, "libjinja.a"))
}

// extractJinja unpacks the engine's files to a fresh folder and edits them.
func (e *Env) extractJinja(ctx context.Context, dir string) error {
	archive, err := e.llamaSource(ctx)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	n, err := untar(archive, e.Manifest.Native.Llama.Tree, dir, func(name string) bool {
		return strings.HasPrefix(name, "common/jinja/") || strings.HasPrefix(name, "vendor/nlohmann/") ||
			name == "ggml/include/ggml.h" || name == jsonLicence || strings.HasPrefix(name, "common/json.") || strings.HasPrefix(name, "common/unicode.")
	})
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("%s has nothing below %s", archive, e.Manifest.Native.Llama.Tree)
	}
	return editFiles(filepath.Join(dir, "common", "jinja"), jinjaEdits())
}

// edit replaces a text that a source file has exactly so many times.
type edit struct {
	file, old, new string
	times          int // 0: once
}

func (c edit) apply(text string) (string, error) {
	if n := strings.Count(text, c.old); n != max(1, c.times) {
		return "", fmt.Errorf("%s of llama.cpp has %d times, not %d, the text that an edit replaces: %q", c.file, n, max(1, c.times), c.old)
	}
	return strings.ReplaceAll(text, c.old, c.new), nil
}

// editFiles applies edits to the files below a folder.
func editFiles(dir string, edits []edit) (err error) {
	files := map[string]string{}
	for _, c := range edits {
		path := filepath.Join(dir, filepath.FromSlash(c.file))
		if _, ok := files[path]; !ok {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files[path] = string(text)
		}
		if files[path], err = c.apply(files[path]); err != nil {
			return err
		}
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// after returns the edit that puts something behind a text that occurs once.
func after(file, text, more string) edit { return edit{file: file, old: text, new: text + more} }

// before returns the edit that puts something in front of a text that occurs once.
func before(file, text, more string) edit { return edit{file: file, old: text, new: more + text} }

// jinjaEdits put limits on time, memory and recursion into the engine (llm/binding/jinja_guard.h), which has
// none: a template comes with a model file, from anywhere.
func jinjaEdits() []edit {
	edits := []edit{
		// Values are counted, with what they hold.
		{file: "value.h", old: "#include \"utils.h\"\n", new: "#include \"utils.h\"\n#include \"jinja_guard.h\"\n"},
		{file: "value.h", old: "struct value_t {\n    int64_t val_int;", new: "struct value_t {\n    slc::JinjaNode node;\n    int64_t val_int;"},
		{file: "value.h", old: "{ val_str = string(v); }", new: "{ node.hold(v.size() + sizeof(string_part)); val_str = string(v); }"},
		{file: "value.h", old: "{ val_str = v; }", new: "{ node.hold(v.length() + v.parts.size() * sizeof(string_part)); val_str = v; }"},
		{file: "value.h", old: "        val_arr = arr;\n", new: "        node.hold(arr.size() * sizeof(value));\n        val_arr = arr;\n", times: 4},
		{file: "value.h", old: "        val_arr = v->val_arr;\n", new: "        node.hold(v->val_arr.size() * sizeof(value));\n        val_arr = v->val_arr;\n", times: 2},
		{file: "value.h", old: "        val_arr.push_back(val);\n", new: "        node.hold(sizeof(value));\n        val_arr.push_back(val);\n"},
		{file: "value.h", old: "        val_arr.push_back(std::move(val));\n", new: "        node.hold(sizeof(value));\n        val_arr.push_back(std::move(val));\n"},
		{file: "value.h", old: "        val_obj = v->val_obj;\n", new: "        node.hold(v->val_obj.size() * 6 * sizeof(value));\n        val_obj = v->val_obj;\n"},
		{file: "value.h", old: "            val_obj.push_back({key, val});\n", new: "            node.hold(6 * sizeof(value));\n            val_obj.push_back({key, val});\n"},
		after("runtime.cpp", "        res->val_str = std::move(output);\n", "        res->node.hold(res->val_str.length() + res->val_str.parts.size() * sizeof(string_part));\n"),
		{file: "runtime.cpp", old: "            res->val_str.append(str);\n", new: "            res->node.hold(str.length() + sizeof(string_part));\n            res->val_str.append(str);\n"},
		{file: "runtime.h", old: "        parts->val_str.append(str_val);\n", new: "        parts->node.hold(str_val.length() + sizeof(string_part));\n        parts->val_str.append(str_val);\n", times: 2},
	}
	edits = append(edits, jinjaRecursion()...)
	return append(edits, jinjaBuiltins()...)
}

// jinjaRecursion has what calls itself, in the parser, at run time and over values that contain each other.
func jinjaRecursion() []edit {
	step := "        slc::jinja_step();\n"
	edits := []edit{
		after("runtime.cpp", "value statement::execute(context & ctx) const {\n", "    slc::jinja_step();\n"),
		after("runtime.h", "static void gather_string_parts_recursive(const value & val, value_string & parts) {\n", "    slc::jinja_step();\n"),
		// Look-ups copied all built-in functions each time.
		{file: "runtime.cpp", old: "    auto builtins = global_builtins();", new: "    const auto & builtins = global_builtins();"},
		{file: "runtime.cpp", old: "    auto builtins = input->get_builtins();", new: "    const auto & builtins = input->get_builtins();"},

		{file: "value.h", old: "    virtual bool is_hashable() const override {\n        if (", new: "    virtual bool is_hashable() const override {\n" + step + "        if (", times: 2},
		{file: "value.h", old: "    virtual bool has_key(const value & key) override {\n", new: "    virtual bool has_key(const value & key) override {\n        slc::jinja_step(key->val_str.length());\n"},
		{file: "value.h", old: "        return typeid(*this) == typeid(other) && val_str.str() == other.val_str.str();\n", new: "        slc::jinja_step(val_str.length());\n        return typeid(*this) == typeid(other) && val_str.length() == other.val_str.length() && val_str.str() == other.val_str.str();\n"},
		{file: "value.h", old: "            ss << value_to_string_repr(val);\n", new: "            const std::string repr = value_to_string_repr(val);\n            slc::jinja_charge(repr.size() + 16);\n            ss << repr;\n"},
		{file: "value.h", old: "            ss << value_to_string_repr(key) << \": \" << value_to_string_repr(val);\n", new: "            const std::string repr = value_to_string_repr(key) + \": \" + value_to_string_repr(val);\n            slc::jinja_charge(repr.size() + 16);\n            ss << repr;\n"},
		after("value.cpp", "std::string value_to_string_repr(const value & val) {\n", "    slc::jinja_step();\n"),
		after("value.cpp", "void value_t::stats_t::mark_used(value & val, bool deep) {\n", "    slc::jinja_step();\n"),
		after("value.cpp", "static void value_to_json_internal(std::ostringstream & oss, const value & val, int curr_lvl, int indent, const std::string_view item_sep, const std::string_view key_sep) {\n",
			"    slc::jinja_charge(16 + 2 * (uint64_t) std::max(indent, 0) * (curr_lvl + 1) + item_sep.size() + key_sep.size() + val->val_str.length());\n"),
		// A keyword argument in a list would be hashed with what it names, however that is.
		{file: "value.h", old: "    virtual std::string as_repr() const override { return type(); }\n    virtual bool is_hashable() const override { return true; }\n    virtual hasher unique_hash() const noexcept override {\n        const auto type_hash = typeid(*this).hash_code();\n        auto hash = val->unique_hash();",
			new: "    virtual std::string as_repr() const override { return type(); }\n    virtual bool is_hashable() const override { return false; }\n    virtual hasher unique_hash() const noexcept override {\n        const auto type_hash = typeid(*this).hash_code();\n        auto hash = val->unique_hash();"},
	}
	for _, f := range []string{"parse_any", "parse_if_statement(size_t start_pos)", "parse_if_expression", "parse_logical_negation_expression",
		"parse_unary_expression", "parse_call_expression(statement_ptr callee)"} {
		if !strings.Contains(f, "(") {
			f += "()"
		}
		edits = append(edits, after("parser.cpp", "    statement_ptr "+f+" {\n", step))
	}
	return edits
}

// jinjaBuiltins has functions that make much of little, take long over it, or end the process.
func jinjaBuiltins() []edit {
	find := "haystack->as_string().str().find(needle->as_string().str())"
	return []edit{
		{file: "value.cpp", old: find, new: "slc::jinja_find(haystack->as_string().str(), needle->as_string().str())"},
		{file: "value.cpp", old: "(pos = str.find(delim))", new: "(pos = slc::jinja_find(str, delim))"},
		{file: "value.cpp", old: "            while ((pos = str.rfind(delim))", new: "            slc::jinja_search(str.size(), delim.size());\n            while ((pos = str.rfind(delim))"},
		{file: "value.cpp", old: "(pos = str.find(old_str, pos))", new: "(pos = slc::jinja_find(str, old_str, pos))"},
		{file: "value.cpp", old: "                        str.replace(pos, old_str.length(), new_str);\n", new: "                        slc::jinja_room(str.size() + new_str.size());\n                        str.replace(pos, old_str.length(), new_str);\n"},
		{file: "value.cpp", old: "                    new_res.reserve(", new: "                    slc::jinja_room((uint64_t) str.length() + (uint64_t) new_str.length() * (str.length() + 1));\n                    new_res.reserve("},
		after("value.cpp", "                const jinja::string arg_str = args.get_pos(arg_idx++)->as_string();\n", "                slc::jinja_charge(arg_str.length() + 64);\n"),
		{file: "value.cpp", old: "                indent.assign(val_width->as_int(), ' ');\n", new: "                slc::jinja_charge(std::max<int64_t>(0, val_width->as_int()));\n                indent.assign(std::max<int64_t>(0, val_width->as_int()), ' ');\n"},
		{file: "value.cpp", old: "            while (std::getline(iss, line)) {\n", new: "            while (std::getline(iss, line)) {\n                slc::jinja_charge(indent.size() + line.size());\n"},
		{file: "value.cpp", old: "                result += val_arr->as_string().str();\n", new: "                const std::string piece = val_arr->as_string().str();\n                slc::jinja_charge(piece.size() + delim.size());\n                result += piece;\n"},
		{file: "value.cpp", old: "            bool res = args.get_pos(0)->val_int % args.get_pos(1)->val_int == 0;\n", new: "            const int64_t by = args.get_pos(1)->val_int;\n            if (by == 0) {\n                throw raised_exception(\"divisibleby: division by zero\");\n            }\n            bool res = by == -1 || args.get_pos(0)->val_int % by == 0;\n"},
		// A comparison of unlike values is no order, which sends std::sort out of bounds; and Jinja's sort is stable.
		{file: "value.cpp", old: "std::sort(", new: "std::stable_sort(", times: 2},
		after("value.cpp", "bool value_compare(const value & a, const value & b, value_compare_op op) {\n", "    slc::jinja_step(a->val_str.length() + b->val_str.length());\n"),
		{file: "value.cpp", old: "std::localtime(&args.ctx.current_time)", new: "slc::jinja_localtime(&args.ctx.current_time)"},
		{file: "string.cpp", old: "    if (parts.empty()) {\n        return *this;\n    }\n    if (left) {\n", new: "    if (parts.empty()) {\n        return *this;\n    }\n    if (chars) {\n        slc::jinja_search(length(), chars->size());\n    }\n    if (left) {\n"},
	}
}
