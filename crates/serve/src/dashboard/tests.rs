//! What is embedded: types, hashes, the size of all, and where the vendored files come from.

use serde_json::Value;

use super::*;

/// The most that all files may take together, compressed, in bytes.
const COMPRESSED: usize = 150 * 1024;

fn hash(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_file_has_its_type_its_hash_and_the_same_content_compressed() {
    for (name, file) in FILES.iter() {
        assert_eq!(file.hash, hash(&file.plain), "{name}");
        assert!(file.content_type != "text/plain; charset=utf-8" || name.ends_with(".txt"), "{name} has no type");
        if let Some(gzip) = &file.gzip {
            let mut plain = Vec::new();
            GzDecoder::new(&gzip[..]).read_to_end(&mut plain).unwrap();
            assert_eq!(plain, file.plain, "{name}");
        }
    }
}

#[test]
fn all_of_it_is_small() {
    let served = FILES.iter().filter(|(name, _)| !name.ends_with(".txt") && !name.ends_with(".json"));
    let bytes: usize = served.map(|(_, file)| file.gzip.as_ref().unwrap_or(&file.plain).len()).sum();
    assert!(bytes <= COMPRESSED, "{bytes} bytes");
}

#[test]
fn a_page_is_one_of_the_known_ones() {
    let script = String::from_utf8(FILES["pages.js"].plain.to_vec()).unwrap();
    let named: Vec<&str> = script.split("{ name: \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(named, PAGES, "pages.js");
    for path in ["", "status", "models/", "races/01900000-0000-7000-8000-000000000000"] {
        assert!(page(path, "").is_some(), "{path}");
    }
    for path in ["nowhere", "index.html", "assets", "../Cargo.toml"] {
        assert!(page(path, "").is_none(), "{path}");
    }
    for path in ["index.html", "", "nothing.js", "../mod.rs", "/etc/passwd"] {
        assert!(asset(path).is_none(), "{path}");
    }
    assert!(asset("app.js").is_some());
}

#[test]
fn every_address_is_relative() {
    let text = page("races/x", "../").unwrap();
    assert!(
        text.matches("\"../assets/").count() >= 3 && !text.contains("\"/") && !text.contains("\"assets/"),
        "{text}"
    );
    // Scripts ask for paths of the gateway only through the functions that know the path of the page.
    for (name, file) in FILES.iter().filter(|(name, _)| name.ends_with(".js") && !name.starts_with("vendor/")) {
        let text = String::from_utf8_lossy(&file.plain);
        for bad in ["EventSource(\"", "fetch(\"", "href=\"/", "action=\"/", "src = \"/", "href = \"/"] {
            assert!(!text.contains(bad), "{name} has {bad}");
        }
    }
    let style = String::from_utf8_lossy(&FILES["style.css"].plain).into_owned();
    assert!(!style.contains("url(/") && !style.contains("url(\"/"), "style.css");
}

/// Nothing is loaded from anywhere else, and nothing needs a script or a style in the page itself.
#[test]
fn no_file_of_ours_writes_markup_as_text() {
    for (name, file) in FILES.iter().filter(|(name, _)| !name.starts_with("vendor/")) {
        let text = String::from_utf8_lossy(&file.plain);
        for bad in ["innerHTML", "insertAdjacentHTML", "document.write", "eval(", "localStorage", "sessionStorage"] {
            assert!(!text.contains(bad), "{name} has {bad}");
        }
        if name.ends_with(".html") {
            assert!(!text.contains("style=") && !text.contains("<style") && !text.contains(" on"), "{name}");
            assert!(text.matches("<script").count() == text.matches("<script type=\"module\" src=").count(), "{name}");
        }
        let addresses = text.split("http").skip(1).filter(|rest| rest.starts_with("://") || rest.starts_with("s://"));
        for rest in addresses {
            assert!(rest.starts_with("://www.w3.org/"), "{name} names http{}", &rest[..rest.len().min(40)]);
        }
    }
}

/// So it shows a new one as it comes from `/api/me`.
#[test]
fn the_page_of_limits_names_no_kind_of_limit() {
    let schema: Value = serde_json::from_str(&photofinish_config::schema()).unwrap();
    let kinds = schema["definitions"]["Limits"]["properties"].as_object().unwrap();
    let script = String::from_utf8_lossy(&FILES["lib/limits.js"].plain);
    let words: Vec<&str> = script.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    assert!(words.contains(&"uses") && words.contains(&"set"));
    let named: Vec<&String> = kinds.keys().filter(|kind| words.contains(&kind.as_str())).collect();
    assert!(named.is_empty(), "limits.js names {named:?}");
}

#[test]
fn vendored_files_are_those_of_the_registry() {
    let list: Value = serde_json::from_slice(&FILES["vendor/vendored.json"].plain).unwrap();
    let mut listed = vec!["vendor/vendored.json".to_owned()];
    for package in list.as_array().unwrap() {
        let text = |member: &str| package[member].as_str().unwrap_or_else(|| panic!("{package} has no {member}"));
        assert!(!text("version").is_empty() && !text("licence").is_empty() && !text("package").is_empty());
        let licence = format!("vendor/{}", text("licence_file"));
        assert!(FILES[licence.as_str()].plain.len() > 500, "{licence}");
        listed.push(licence);
        for file in package["files"].as_array().unwrap() {
            let name = format!("vendor/{}", file["name"].as_str().unwrap());
            let mut plain = String::from_utf8(FILES[name.as_str()].plain.to_vec()).unwrap();
            // A browser cannot resolve the bare name of a package.
            for change in file["changed"].as_array().into_iter().flatten() {
                let (from, to) = (change["from"].as_str().unwrap(), change["to"].as_str().unwrap());
                assert_eq!(plain.matches(to).count(), 1, "{name}: {to}");
                plain = plain.replace(to, from);
            }
            assert_eq!(hash(plain.as_bytes()), file["sha256"], "{name} is not the file of the registry");
            listed.push(name);
        }
    }
    let mut there: Vec<String> =
        FILES.keys().filter(|name| name.starts_with("vendor/")).map(|name| (*name).to_owned()).collect();
    listed.sort();
    there.sort();
    assert_eq!(listed, there);
}
