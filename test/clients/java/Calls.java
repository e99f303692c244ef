import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import org.lance.namespace.client.apache.ApiClient;
import org.lance.namespace.client.apache.ApiException;
import org.lance.namespace.client.apache.BaseApi;
import org.lance.namespace.client.apache.api.MaterializedViewApi;
import org.lance.namespace.client.apache.api.NamespaceApi;
import org.lance.namespace.client.apache.api.TableApi;
import org.lance.namespace.client.apache.api.TagApi;
import org.lance.namespace.client.apache.api.TransactionApi;
import org.lance.namespace.client.apache.api.DataApi;
import org.lance.namespace.client.apache.api.IndexApi;
import org.lance.namespace.client.apache.api.MetadataApi;

/**
 * Calls methods of the Java client, one for each line of its input: a JSON array of the method's name and its arguments. It
 * first writes the names that there are, and then a line of JSON for each call: the answer, or the status and body of an error.
 */
public final class Calls {
  private final ObjectMapper json;
  private final Map<String, Call> calls = new TreeMap<>();

  private record Call(BaseApi api, Method method) {}

  private Calls(ApiClient client) {
    json = client.getObjectMapper();
    BaseApi[] apis = {
      new NamespaceApi(client), new TableApi(client), new DataApi(client), new IndexApi(client), new MetadataApi(client),
      new TagApi(client), new TransactionApi(client), new MaterializedViewApi(client),
    };
    for (BaseApi api : apis) {
      for (Method method : api.getClass().getDeclaredMethods()) {
        if (isOperation(method)) calls.merge(method.getName(), new Call(api, method), Calls::withoutHeaders);
      }
    }
  }

  private static boolean isOperation(Method method) {
    return java.lang.reflect.Modifier.isPublic(method.getModifiers()) && !method.getName().equals("invokeAPI");
  }

  /** Each method is there twice; the second takes headers as well. */
  private static Call withoutHeaders(Call one, Call other) {
    return one.method().getParameterCount() <= other.method().getParameterCount() ? one : other;
  }

  private JsonNode call(ArrayNode line) throws Exception {
    Call call = calls.get(line.get(0).asText());
    Type[] types = call.method().getGenericParameterTypes();
    Object[] arguments = new Object[types.length];
    for (int index = 0; index < types.length; index += 1) {
      JsonNode given = line.get(index + 1);
      arguments[index] = given == null || given.isNull() ? null : json.readerFor(json.constructType(types[index])).readValue(given);
    }
    ObjectNode answer = json.createObjectNode();
    try {
      answer.set("answer", json.valueToTree(call.method().invoke(call.api(), arguments)));
    } catch (InvocationTargetException wrapped) {
      if (!(wrapped.getCause() instanceof ApiException error)) throw wrapped;
      answer.put("status", error.getCode());
      answer.put("error", error.getResponseBody() == null ? error.getMessage() : error.getResponseBody());
    }
    return answer;
  }

  public static void main(String[] given) throws Exception {
    ApiClient client = new ApiClient();
    client.setBasePath(given[0]);
    client.addDefaultHeader("Authorization", given[1]);
    Calls calls = new Calls(client);
    System.out.println(calls.json.writeValueAsString(calls.calls.keySet()));
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      System.out.println(calls.json.writeValueAsString(calls.call((ArrayNode) calls.json.readTree(line))));
    }
  }
}
