#include "rewrite.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <vector>

namespace emulated {
namespace {

bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

std::string trimmed(const std::string &s) {
    size_t a = s.find_first_not_of(" \t\r\n"), b = s.find_last_not_of(" \t\r\n");
    return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

size_t after_space(const std::string &s, size_t i) {
    while (i < s.size() && isspace((unsigned char)s[i])) ++i;
    return i;
}
size_t after_word(const std::string &s, size_t i) {
    while (i < s.size() && is_word(s[i])) ++i;
    return i;
}
// After a string or character literal that begins at i.
size_t after_literal(const std::string &s, size_t i) {
    const char quote = s[i++];
    while (i < s.size() && s[i] != quote) i += s[i] == '\\' ? 2 : 1;
    return i + 1;
}
// After the bracket that closes the one at i.
size_t after_brackets(const std::string &s, size_t i) {
    int depth = 0;
    while (i < s.size()) {
        const char c = s[i];
        if (c == '"' || c == '\'') {
            i = after_literal(s, i);
            continue;
        }
        ++i;
        if (strchr("([{", c)) ++depth;
        if (strchr(")]}", c) && --depth == 0) break;
    }
    return i;
}
// Cut at `mark`s outside of brackets and literals.
std::vector<std::string> split(const std::string &s, char mark) {
    std::vector<std::string> parts(1);
    for (size_t i = 0; i < s.size();) {
        size_t end = i + 1;
        if (s[i] == '"' || s[i] == '\'') end = after_literal(s, i);
        else if (strchr("([{", s[i])) end = after_brackets(s, i);
        else if (s[i] == mark) {
            parts.emplace_back();
            i = end;
            continue;
        }
        parts.back() += s.substr(i, end - i);
        i = end;
    }
    return parts;
}
// The text of adjacent string literals.
std::string joined_literals(const std::string &s) {
    std::string out;
    for (size_t i = 0; i < s.size();) {
        if (s[i] != '"') {
            ++i;
            continue;
        }
        const size_t end = after_literal(s, i);
        for (size_t k = i + 1; k + 1 < end; ++k) {
            if (s[k] != '\\') out += s[k];
            else if (s[++k] == 'n') out += '\n';
            else if (s[k] == 't') out += ' ';
            else out += s[k];
        }
        i = end;
    }
    return out;
}
std::string quoted(const std::string &s) {
    std::string out = "\"";
    for (char c : s) {
        if (c == '\n') out += ' ';
        else if (c == '"' || c == '\\') out += '\\', out += c;
        else if (c == '%') out += "%%";
        else out += c;
    }
    return out + "\"";
}

struct Operand {
    std::string letter, expression;
    bool output;
};

// `[name] "constraint" (expression)` items.
void add_operands(const std::string &list, bool output, std::vector<Operand> &operands) {
    for (const std::string &part : split(list, ',')) {
        const std::string item = trimmed(part);
        const size_t quote = item.find('"');
        if (quote == std::string::npos) continue;
        const size_t end = after_literal(item, quote);
        std::string letter;
        for (char c : item.substr(quote + 1, end - quote - 2)) {
            if (isalpha((unsigned char)c)) letter += c;
        }
        operands.push_back({letter, trimmed(item.substr(end)), output});
    }
}

// One PTX instruction as a call; empty when it has a form that is not understood.
std::string call(const std::string &text, const std::vector<Operand> &operands, const std::string &instructions) {
    size_t i = 0;
    std::string name;
    while (i < text.size() && !isspace((unsigned char)text[i])) {
        if (is_word(text[i])) name += text[i];
        else if (text[i] == '.') name += '_';
        else if (text[i] == ':' && i + 1 < text.size() && text[i + 1] == ':') name += '_', ++i;
        else return "";
        ++i;
    }
    if (instructions.find(" " + name + "(") == std::string::npos && instructions.find("(" + name + ",") == std::string::npos) return "";
    std::vector<std::string> arguments;
    std::vector<bool> seen(operands.size());
    while (i < text.size()) {
        const char c = text[i];
        if (c == '%' && i + 1 < text.size() && isdigit((unsigned char)text[i + 1])) {
            size_t end = i + 1, number = 0;
            while (end < text.size() && isdigit((unsigned char)text[end])) number = number * 10 + (size_t)(text[end++] - '0');
            if (number >= operands.size()) return "";
            const Operand &o = operands[number];
            if (o.letter.size() != 1) return "";
            // An output is written first and read by value where it comes again.
            const bool write = o.output && !seen[number];
            seen[number] = true;
            arguments.push_back("emulated::" + std::string(write ? "out_" : "in_") + o.letter + o.expression);
            i = end;
        } else if (c == '%' && text.compare(i, 2, "%%") == 0) {
            const size_t end = after_word(text, i + 2);
            const std::string special = text.substr(i + 2, end - i - 2);
            if (instructions.find(" " + special + "()") == std::string::npos) return "";
            arguments.push_back("ptx::" + special + "()");
            i = end;
        } else if (isdigit((unsigned char)c)) {
            size_t end = after_word(text, i);
            arguments.push_back(text.substr(i, end - i) + "ll");
            i = end;
        } else if (isspace((unsigned char)c) || strchr(",{}[]", c) || (c == '_' && !is_word(text[i + 1]))) {
            ++i;
        } else {
            return "";
        }
    }
    std::string out = "ptx::" + name + "(";
    for (size_t a = 0; a < arguments.size(); ++a) out += (a ? ", " : "") + arguments[a];
    return out + "); ";
}

// The forms with registers of their own that wrappers use: waiting in a loop, electing a lane, products with a predicate.
std::string compound(const std::string &text, const std::vector<Operand> &operands) {
    auto in = [&](size_t i) { return "emulated::in_" + operands[i].letter + operands[i].expression; };
    if (text.find("mbarrier.try_wait.parity") != std::string::npos && operands.size() == 2) {
        return "ptx::mbarrier_wait_parity(" + in(0) + ", " + in(1) + "); ";
    }
    if (text.find("elect.sync") != std::string::npos && operands.size() == 1) {
        return "emulated::out_r" + operands[0].expression + " = ptx::elect_sync(); ";
    }
    const char *product = nullptr;
    const bool bytes = text.find(".s32.s8.s8 ") != std::string::npos;
    if (bytes) product = "wgmma_s8";
    else if (text.find(".f32.bf16.bf16 ") != std::string::npos) product = "wgmma_bf16";
    else if (text.find(".f32.e4m3.e4m3 ") != std::string::npos) product = "wgmma_e4m3";
    // One with its first operand in registers has three operands more.
    const size_t outputs = (size_t)std::count_if(operands.begin(), operands.end(), [](const Operand &o) { return o.output; });
    const bool in_registers = operands.size() == outputs + 6;
    if (text.find("wgmma.mma_async") != std::string::npos && product && !in_registers) {
        std::string registers;
        size_t count = 0;
        for (; count < operands.size() && operands[count].output; ++count) registers += "&emulated::out_" + operands[count].letter + operands[count].expression + ", ";
        if (count + 3 != operands.size() || text.find("n" + std::to_string(2 * count) + "k") == std::string::npos) return "";
        return std::string(bytes ? "unsigned" : "float") + " *const emulated_sums[] = {" + registers + "}; ptx::" + product +
               "(emulated_sums, " + std::to_string(count) + ", " + in(count) + ", " + in(count + 1) + ", " + in(count + 2) + "); ";
    }
    // The first operand in registers; the second along rows, or transposed.
    const bool brain = text.find(".f32.bf16.bf16 ") != std::string::npos;
    if (text.find("wgmma.mma_async") != std::string::npos && (brain || text.find(".f32.f16.f16 ") != std::string::npos)) {
        std::string registers;
        size_t count = 0;
        for (; count < operands.size() && operands[count].output; ++count) registers += "&emulated::out_" + operands[count].letter + operands[count].expression + ", ";
        if (count + 6 != operands.size() || text.find("n" + std::to_string(2 * count) + "k") == std::string::npos) return "";
        const bool transposed = text.find("keep, 1, 1, 1;") != std::string::npos;
        std::string call = "float *const emulated_sums[] = {" + registers + "}; ptx::wgmma_f16(emulated_sums, " + std::to_string(count);
        for (size_t i = 0; i < 6; ++i) call += ", " + in(count + i);
        return call + (transposed ? ", true" : ", false") + (brain ? ", true); " : ", false); ");
    }
    return "";
}

std::string assembly(const std::string &inside, const std::string &instructions) {
    const std::vector<std::string> parts = [&] {
        // `::` is two separators.
        return split(inside, ':');
    }();
    const std::string text = joined_literals(parts[0]);
    std::vector<Operand> operands;
    if (parts.size() > 1) add_operands(parts[1], true, operands);
    if (parts.size() > 2) add_operands(parts[2], false, operands);
    std::string calls;
    if (text.find('{') != std::string::npos && text.find(".reg") != std::string::npos) {
        const std::string c = compound(text, operands);
        if (!c.empty()) return "{ " + c + "}";
    }
    for (const std::string &statement : split(text, ';')) {
        const std::string one = trimmed(statement);
        if (one.empty()) continue;
        const std::string c = one[0] == '{' || one[0] == '@' ? "" : call(one, operands, instructions);
        if (c.empty()) return "emulated::emulated_fault(" + quoted("not emulated: " + trimmed(text)) + ");";
        calls += c;
    }
    return "{ " + calls + "}";
}

// `__shared__` declarations from after the word; `end` is where the declaration ends.
std::string shared_variables(const std::string &s, size_t i, bool dynamic, int &number, size_t &end) {
    std::string align = "0", all;
    end = i;
    while (end < s.size() && s[end] != ';') end = strchr("([{", s[end]) ? after_brackets(s, end) : end + 1;
    std::string declaration = s.substr(i, end - i);
    ++end;
    // What stands before the first name is the type.
    for (const char *word : {"__align__", "alignas"}) {
        const size_t at = declaration.find(word);
        if (at == std::string::npos) continue;
        const size_t open = declaration.find('(', at), close = after_brackets(declaration, open);
        align = declaration.substr(open, close - open);
        declaration.erase(at, close - at);
    }
    std::string type;
    for (std::string part : split(declaration, ',')) {
        part = trimmed(part);
        const size_t bracket = part.find('[');
        const std::string sizes = bracket == std::string::npos ? "" : part.substr(bracket);
        std::string name = trimmed(part.substr(0, bracket));
        if (type.empty()) {
            size_t at = name.size();
            while (at > 0 && is_word(name[at - 1])) --at;
            type = trimmed(name.substr(0, at));
            name = name.substr(at);
        }
        const std::string id = "emulated_shared_" + std::to_string(number++);
        if (dynamic) {
            all += type + " *const " + name + " = static_cast<" + type + " *>(emulated::dynamic_shared()); ";
        } else {
            all += "struct " + id + " {}; typedef " + type + " " + id + "_type" + sizes + "; " + id + "_type &" + name +
                   " = emulated::shared_variable<" + id + ", " + id + "_type, " + align + ">(); ";
        }
    }
    return all;
}

} // namespace

std::string rewritten(const std::string &s, const std::string &instructions) {
    std::string out, registrations;
    int number = 0;
    size_t copied_extern = std::string::npos; // where an `extern` that may belong to __shared__ begins in `out`
    for (size_t i = 0; i < s.size();) {
        const char c = s[i];
        if (c == '#' && (i == 0 || s[i - 1] == '\n')) {
            const size_t end = s.find('\n', i);
            out += s.substr(i, end - i);
            i = end == std::string::npos ? s.size() : end;
        } else if (c == '"' || c == '\'') {
            const size_t end = after_literal(s, i);
            out += s.substr(i, end - i);
            i = end;
        } else if (is_word(c)) {
            const size_t end = after_word(s, i);
            const std::string word = s.substr(i, end - i);
            if (word == "asm" || word == "__asm__") {
                size_t open = after_space(s, end);
                while (open < s.size() && is_word(s[open])) open = after_space(s, after_word(s, open));
                const size_t close = after_brackets(s, open);
                out += assembly(s.substr(open + 1, close - open - 2), instructions);
                i = close;
                // The statement's own semicolon stays; before an `else` it would end the `if`.
                const size_t mark = after_space(s, i);
                if (mark < s.size() && s[mark] == ';') i = mark + 1;
            } else if (word == "__shared__") {
                const bool dynamic = copied_extern != std::string::npos;
                if (dynamic) out.erase(copied_extern);
                out += shared_variables(s, end, dynamic, number, i);
            } else if (word == "extern") {
                copied_extern = out.size();
                out += word;
                i = end;
                const size_t following = after_space(s, end);
                if (s.compare(following, 10, "__shared__") != 0) copied_extern = std::string::npos;
                else i = following;
                continue;
            } else if (word == "__global__") {
                // [__launch_bounds__(...)] void [__launch_bounds__(...)] name(...)
                std::string name, bounds = "1024";
                size_t at = after_space(s, end);
                while (at < s.size() && is_word(s[at])) {
                    const size_t word_end = after_word(s, at);
                    name = s.substr(at, word_end - at);
                    at = after_space(s, word_end);
                    if (name == "__launch_bounds__") {
                        const size_t close = after_brackets(s, at);
                        bounds = s.substr(at, close - at);
                        at = after_space(s, close);
                    }
                }
                const size_t body = after_space(s, after_brackets(s, at));
                const std::string before = trimmed(out);
                const bool c_name = before.size() >= 3 && before.compare(before.size() - 3, 3, "\"C\"") == 0;
                if (body < s.size() && s[body] == '{' && c_name) {
                    if (bounds[0] != '(') bounds = "(" + bounds + ")";
                    registrations += "EMULATED_KERNEL(" + name + ", (emulated::first_of" + bounds + "))\n";
                }
                out += word;
                i = end;
            } else {
                out += word;
                i = end;
            }
            copied_extern = std::string::npos;
        } else {
            out += c;
            ++i;
        }
    }
    return out + "\n" + registrations + "EMULATED_MODULE\n";
}

} // namespace emulated
