//! Modules of a small project, and what each kind of statement uses of them.

use std::fs;

use serde_json::json;

use super::*;

const TAX: &str = r#"Attribute VB_Name = "Tax"
Public DefaultCountry As String
Private mSecret As Long
Public Const Rate = 0.19
Public Type Money
    Amount As Currency
End Type
Public Enum Rounding
    HalfUp = 1
    Down
End Enum
Public Declare Function Beep Lib "kernel32" (ByVal f As Long, ByVal d As Long) As Long
Public Function RateFor(ByVal Country As String) As Double
End Function
Private Sub Hidden()
End Sub
"#;

const LEDGER: &str = r#"VERSION 1.0 CLASS
BEGIN
  MultiUse = -1  'True
END
Attribute VB_Name = "Ledger"
Public Sub Post(ByVal Amount As Currency)
End Sub
Public Property Get Balance() As Currency
End Property
"#;

/// A project with a module, a class, and whatever else is written to it.
fn project() -> (tempfile::TempDir, Project) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("classes")).unwrap();
    fs::write(dir.path().join("Tax.bas"), TAX).unwrap();
    fs::write(dir.path().join("classes/Ledger.cls"), LEDGER).unwrap();
    let project = Project::new(dir.path());
    (dir, project)
}

/// What a module uses, as words: `m` modules, `p` procedures, `g` globals, `t` types, `a` APIs, `o`
/// objects.
fn uses(project: &Project, text: &str) -> String {
    let found = project.dependencies(text).unwrap();
    let mut words = Vec::new();
    for (letter, kind) in [
        ('m', "modules"),
        ('p', "procedures"),
        ('g', "globals"),
        ('t', "types"),
        ('a', "apis"),
        ('o', "objects"),
    ] {
        for it in found["uses"][kind].as_array().unwrap() {
            let text = |field: &str| it[field].as_str().unwrap();
            let name = match it.as_str() {
                Some(name) => name.to_owned(),
                None => format!("{}@{}", text("name"), text("library")),
            };
            words.push(format!("{letter}:{name}"));
        }
    }
    words.join(" ")
}

#[test]
fn what_a_module_uses_is_found_however_it_is_written() {
    let (_dir, project) = project();
    for (text, wanted) in [
        ("", ""),
        ("Sub A()\nx = Tax.RateFor(1)\nEnd Sub", "m:Tax p:Tax.RateFor"),
        ("Sub A()\nx = ratefor(1)\nEnd Sub", "m:Tax p:Tax.RateFor"),
        ("Sub A()\nx = TAX.ratefor(1)\nEnd Sub", "m:Tax p:Tax.RateFor"),
        // A value, a constant, a member of an enumeration, a type.
        ("Sub A()\nx = DefaultCountry\nEnd Sub", "m:Tax g:Tax.DefaultCountry"),
        ("Sub A()\nx = 1 + Rate\nEnd Sub", "m:Tax g:Tax.Rate"),
        ("Sub A()\nx = Down\nEnd Sub", "m:Tax g:Tax.Down"),
        ("Sub A()\nDim x As Money\nEnd Sub", "m:Tax t:Tax.Money"),
        ("Sub A()\nDim x As Tax.Money\nEnd Sub", "m:Tax t:Tax.Money"),
        ("Private Type T\nM As Money\nEnd Type", "m:Tax t:Tax.Money"),
        ("Private Type T\nRate As Long\nEnd Type", ""),
        // What is not for others.
        ("Sub A()\nHidden\nx = mSecret\nEnd Sub", ""),
        ("Sub A()\nTax.Hidden\nEnd Sub", "m:Tax"),
        // Names that are somebody else's.
        ("Sub A()\nDim Rate As Double\nx = Rate\nEnd Sub", ""),
        ("Sub A()\nDim x, Rate As Double\nx = Rate\nEnd Sub", ""),
        ("Sub A(ByVal Rate As Double)\nx = Rate\nEnd Sub", ""),
        ("Sub A(Optional r As Double = Rate)\nEnd Sub", "m:Tax g:Tax.Rate"),
        ("Function Rate()\nRate = 1\nEnd Function\nSub A()\nx = Rate\nEnd Sub", ""),
        ("Private Rate As Double\nSub A()\nx = Rate\nEnd Sub", ""),
        ("Sub A()\nx = o.RateFor(1)\nEnd Sub", ""),
        ("Sub A()\nWith o\n.RateFor 1\nEnd With\nEnd Sub", ""),
        ("Sub A()\nx = rs!Rate\nEnd Sub", ""),
        ("Sub A()\nF Rate:=1\nEnd Sub", ""),
        ("Sub A()\nOn Error GoTo Rate\nEnd Sub", ""),
        // A local name ends with its procedure.
        ("Sub A()\nDim Rate\nEnd Sub\nSub B()\nx = Rate\nEnd Sub", "m:Tax g:Tax.Rate"),
        // Comments, texts, lines that are joined, several statements in one.
        ("Sub A() ' Rate\nRem Rate\nx = \"Rate \"\" Rate\"\nEnd Sub", ""),
        ("Sub A()\nx = 1: y = Rate\nEnd Sub", "m:Tax g:Tax.Rate"),
        ("Sub A()\nx = 1 + _\n  Rate\nEnd Sub", "m:Tax g:Tax.Rate"),
        ("Sub A()\nx = Rate#\nx = #1/31/2001#\nPrint #1, y\nEnd Sub", "m:Tax g:Tax.Rate"),
        ("#If Rate Then\n#Else\n#End If", ""),
        ("Sub A()\nx = [Rate]\nEnd Sub", "m:Tax g:Tax.Rate"),
        // Objects of a class.
        ("Sub A()\nDim l As New Ledger\nl.Post 5\nEnd Sub", "m:Ledger p:Ledger.Post"),
        ("Private l As Ledger\nSub A()\nx = l.Balance\nEnd Sub", "m:Ledger p:Ledger.Balance"),
        ("Sub A(l As Ledger)\nl.Unknown\nEnd Sub", "m:Ledger"),
        ("Sub A()\nSet x = New Ledger\nEnd Sub", "m:Ledger"),
        ("Sub A()\nIf TypeOf x Is Ledger Then y\nEnd Sub", "m:Ledger"),
        ("Sub A()\nPost 5\nEnd Sub", ""),
        ("Implements Ledger", "m:Ledger"),
        ("Sub A()\nSet x = CreateObject(\"ADODB.Connection\")\nEnd Sub", "o:ADODB.Connection"),
        // APIs, of the module and of another one.
        (
            "Private Declare Function T Lib \"winmm\" Alias \"timeGetTime\" () As Long\nSub A()\nx = \
             T()\nEnd Sub",
            "a:T@winmm",
        ),
        ("Private Declare Sub S Lib \"winmm\" ()\nSub A()\nEnd Sub", ""),
        ("Sub A()\nBeep 1, 2\nEnd Sub", "m:Tax a:Beep@kernel32"),
    ] {
        assert_eq!(uses(&project, text), wanted, "{text}");
    }
}

#[test]
fn what_a_module_has_is_listed_with_its_lines() {
    let (_dir, project) = project();
    let text = "Attribute VB_Name = \"M\"\nOption Explicit\nPublic A As Long, B(1 To 3) As \
                String\nPublic Sub One()\nEnd Sub\nPrivate Function Two$(x)\nEnd Function\nFriend \
                Property Get Three()\nEnd Property\nStatic Sub Four()\nEnd Sub";
    let found = project.dependencies(text).unwrap();
    assert_eq!((&found["module"], &found["kind"]), (&json!("M"), &json!("module")));
    assert_eq!(found["globals"], json!(["A", "B"]));
    let listed = found["procedures"].as_array().unwrap().iter().map(|it| {
        let text = |field: &str| it[field].as_str().unwrap();
        format!("{} {} {} {}", it["line"], text("kind"), text("name"), it["is_public"])
    });
    assert_eq!(
        listed.collect::<Vec<_>>(),
        ["4 sub One true", "6 function Two false", "8 property get Three true", "10 sub Four true"]
    );
    let ledger = project.dependencies_of("classes/Ledger.cls").unwrap();
    assert_eq!((&ledger["module"], &ledger["kind"]), (&json!("Ledger"), &json!("class")));
}

#[test]
fn the_example_depends_on_its_tax() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("pipeline/vb6");
    let project = Project::new(root);
    let text = project.source("Invoice.bas").unwrap();
    assert_eq!(
        uses(&project, &text),
        "m:Tax p:Tax.RateFor p:Tax.RoundMoney g:Tax.DefaultCountry a:GetTickCount@kernel32"
    );
    let found = project.dependencies_of("Invoice.bas").unwrap();
    assert_eq!(found["module"], "Invoice");
    assert_eq!(found["procedures"].as_array().unwrap().len(), 7, "{found}");
}

#[test]
fn only_modules_below_the_directory_are_read() {
    let (dir, project) = project();
    fs::write(dir.path().join("notes.txt"), "x").unwrap();
    fs::write(dir.path().join("Latin.bas"), b"' gr\xfc\xdfe").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", dir.path().join("Link.bas")).unwrap();
    fs::write(dir.path().join("Big.cls"), vec![b' '; MODULE_BYTES_MAX + 1]).unwrap();
    for (path, why) in [
        ("../Tax.bas", "is no path of a module"),
        ("/etc/hostname", "is no path of a module"),
        ("notes.txt", "is no path of a module"),
        ("", "is no path of a module"),
        ("No.bas", "cannot be read"),
        ("Link.bas", "cannot be read"),
        ("Big.cls", "the limit"),
    ] {
        let refused = project.source(path).unwrap_err();
        assert!(refused.contains(why), "{path}: {refused}");
    }
    assert_eq!(project.source("Latin.bas").unwrap(), "' grüße");
    // One module that cannot be read makes what is used unknown.
    assert!(project.dependencies_of("Tax.bas").unwrap_err().contains("Big.cls"));
    fs::remove_file(dir.path().join("Big.cls")).unwrap();
    assert_eq!(project.dependencies_of("Latin.bas").unwrap()["module"], "Latin");
}
